"""Errors of calls from Python name arguments of Python."""

from __future__ import annotations

import ast
import re
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as ss

import sssp_pipeline as sp
from sssp_pipeline.api.calls.argument_names import of_dijkstra, of_solve, of_store
from sssp_pipeline.base.error_text import Keys, Text, key
from sssp_pipeline.base.errors import DeadlineError, NegativeCycleError

PACKAGE = Path(sp.__file__).parent
#: The modules whose errors a call of `solve` or `dijkstra` may raise, in addition to those of `api/`.
REACHED = [
    *(PACKAGE / "kernels").rglob("*.py"),
    *(PACKAGE / name for name in ("base/csr.py", "base/errors.py", "base/vertex_ids.py")),
    *(PACKAGE / "pipeline/formats" / name for name in ("tables/parquet.py", "columns/edge_columns.py")),
    *(PACKAGE / "pipeline/graph_store" / name for name in ("units.py", "store.py", "loading.py")),
    *(PACKAGE / "pipeline" / name for name in ("ingest/weight_types.py", "planning/plan.py")),
]
#: Keys in plain texts of these modules that no call reaches: of files, of ingest, and of options that calls lack.
UNREACHED = {
    *("graph.ids", "graph.weights.default", "graph.weights.scale", "graph.store"),
    *("solve.trace_every_us", "output.path"),
}
KEY = re.compile(r"`((?:graph|solve|output|cluster|sources|verify)\.[a-zA-Z_.]+)")


def plain_texts(module: Path) -> set[str]:
    """Return the texts in the code of a module: no docstrings, and not the words that `Either` has for a run."""
    nodes = list(ast.walk(ast.parse(module.read_text())))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    of_runs = {call.args[0] for call in calls if getattr(call.func, "id", "") == "Either"}
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
    texts = {node for node in nodes if isinstance(node, ast.Constant)} - of_runs - docstrings
    return {node.value for node in texts if isinstance(node.value, str)}


def test_no_plain_text_names_a_key_of_a_workflow():
    for module in REACHED:
        for text in plain_texts(module):
            assert set(KEY.findall(text)) <= UNREACHED, f"{module}: {text}"
            assert "the workflow file" not in text


@pytest.mark.parametrize(
    ("edges", "options", "hint"),
    [
        ({"u": [1], "v": [2], "km": [1], "s": [2.0]}, {"weight": "length"}, "Columns: u, v, km, s"),
        ({"u": [1], "v": [2], "km": ["a"]}, {}, "choose a column of numbers with `weight`, or convert this one"),
        ({"u": [1.5], "v": [2]}, {}, "choose other columns with `columns`"),
        ({"u": ["a"], "v": [2]}, {}, "convert one of them to the type of the other"),
        ({"u": [1]}, {}, "a row holds source, target and perhaps a weight"),
        ({"u": [1, 2], "v": [2, 3], "km": [1, None]}, {}, "leave such rows out of the table"),
        ({"u": [1], "v": [2], "km": [1.5]}, {"dtype": "uint32"}, "`dtype=None`"),
        ({"u": [1], "v": [2], "km": [-1]}, {"dtype": "uint32"}, '`dtype="int32"`'),
        ({"u": [1], "v": [2], "km": [1e-310]}, {"dtype": "float32"}, '`dtype="float64"`'),
        ({"p": [1], "q": [2], "km": [1], "minutes": [1]}, {"columns": ("p", "q")}, '`weight="km"`'),
        ({"yes": [1], "it's": [2]}, {"weight": None}, 'for example: `columns=("yes", "it\'s"), weight=None`'),
    ],
)  # fmt: skip
def test_tables(edges, options, hint, error_of):
    found = error_of(sp.solve, pd.DataFrame(edges).convert_dtypes(), 1, **options)
    assert hint in found.hint
    assert not KEY.search(found.message + found.hint)


def test_other_arguments(tmp_path, error_of):
    matrix = ss.csr_array(([2**32 - 2] * 2, ([0, 1], [1, 2])), (3, 3))
    assert error_of(sp.solve, matrix, 0).hint == 'set `dtype="uint64"`, or a cutoff'
    names = pd.DataFrame({"u": ["a"], "v": ["b"]})
    of_string = "write a string, for example 'a'"
    found = error_of(sp.solve, names, 1)
    assert found.hint == of_string
    assert traceback.format_exception_only(found)[-1] == f"hint: {of_string}\n"
    assert error_of(sp.solve(names, "a", predecessors=True).path, 1, "b").hint == of_string
    assert error_of(sp.solve, np.empty((0, 0)), 0).hint == "the graph has no vertices"
    assert error_of(sp.open_run, tmp_path).hint == "name the folder of a run"
    of_run = error_of(sp.run, {"sources": {"ids": [1]}, "output": {"path": "run"}, "cutoff": 3})
    assert "did you mean `solve.cutoff`?" in "".join(traceback.format_exception_only(of_run))


def test_a_graph_store_names_the_arguments_of_ingest(tmp_path, error_of):
    edges = tmp_path / "edges.csv"
    edges.write_text(f"u,v,km\n0,1,{2**32 - 2}\n1,2,1\n")
    store = sp.ingest(edges, tmp_path / "store")
    assert repr(store) == f"<StoredGraph: {tmp_path}/store, 3 vertices, 2 edges>"
    hint = 'set `weights={"dtype": "uint64"}` of `sp.ingest`, or a cutoff'
    assert error_of(sp.solve, store, 0).hint == hint
    both = Keys({"graph.weights.dtype": "uint64", "graph.weights.scale": 10})
    for text, words in (
        (Text("set ", both), 'set `weights={"dtype": "uint64", "scale": 10}` of `sp.ingest`'),
        (Text("lower ", key("graph.weights.scale")), 'lower `weights={"scale": …}` of `sp.ingest`'),
        (Text("take ", key("solve.solver", "dijkstra")), 'take `solver="dijkstra"`'),
    ):
        assert of_store(text) == words
    (tmp_path / "store" / "manifest.json").write_text("{}")
    assert error_of(sp.open_store, tmp_path / "store").hint == "name another folder"


def test_dijkstra_names_its_own_arguments(error_of):
    long = ss.csr_array((np.full(3, 2**63 - 2), ([0, 1, 2], [1, 2, 3])), (4, 4))
    assert error_of(sp.dijkstra, long).hint == "scale the weights down, or set a limit"
    rounded = NegativeCycleError(0, [0, 1], 0.0)
    assert of_dijkstra(rounded.hint) == "use integer weights"
    hint = Text(key("solve.solver", "delta-stepping"), " needs no GPU")
    assert of_dijkstra(hint) == '`solver="delta-stepping"` of `sp.solve` needs no GPU'
    late = DeadlineError("adds", 3, 86400)
    assert of_solve(late.message) == "`adds` took longer for source 3 than 86400 s"
    assert of_solve(late.hint) == "take another solver: `sssp-pipeline solvers` lists all"
