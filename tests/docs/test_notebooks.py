"""The notebooks run from start to end, show what the committed files show, and their results are right."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("run_notebooks", ROOT / "docs" / "run_notebooks.py")
run_notebooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run_notebooks)

NOTEBOOKS = sorted(run_notebooks.NOTEBOOKS.glob("*.ipynb"))

#: Gives the checks the graph of the notebook as a matrix of SciPy.
SCIPY = """
import scipy.sparse as ss
from scipy.sparse import csgraph

held = store.graph() if "store" in globals() else run.graph().graph()
rows = held.col_indices.astype("int32"), held.row_offsets.astype("int32")
matrix = ss.csr_array((held.weights.astype(float), *rows), shape=(held.n_vertices,) * 2)
"""

#: What the kernel checks behind the last cell of each notebook, whatever the graph.
CHECKS = {
    "accessibility": """
places = shown["vertex"].to_numpy()[:: len(shown) // 20]
rows = csgraph.dijkstra(matrix, indices=np.searchsorted(store.ids.column().to_numpy(), places))
expected = (rows <= RADII[-1]) @ jobs["jobs"].to_numpy()
found = reach.set_index("source")["jobs_within_%s" % RADII[-1]][places]
np.testing.assert_array_equal(found, expected)
assert found.max() > 0
assert (snapped["distance_m"] < 50).all()
assert answers["jobs_within_%s" % RADII[-1]].is_monotonic_decreasing
""",
    "along-the-paths": """
import igraph

ends = np.searchsorted(ids, estimate[["source", "target"]])
graph = igraph.Graph(len(ids), ends, directed=True)
drawn = np.sort(np.random.default_rng(1).choice(len(ids), PIVOTS, replace=False))
expected = graph.edge_betweenness(weights=held.weights.astype(float), sources=drawn)
np.testing.assert_allclose(np.array(expected) * len(ids) / PIVOTS, estimate["betweenness"], rtol=1e-9)
dead_ends = np.flatnonzero(np.bincount(np.searchsorted(ids, streets[["a", "b"]]).ravel()) == 1)
is_dead_end = np.isin(streets[["a", "b"]], ids[dead_ends]).sum(axis=1) == 1
if SAMPLE is None:  # all trips from and to the last crossing of a dead end take its street
    np.testing.assert_allclose(streets["share"][is_dead_end], 2 / len(ids), rtol=1e-12)
assert is_dead_end.any()
np.testing.assert_allclose(streets["betweenness"].sum(), found["betweenness"].sum(), rtol=1e-12)
rows = csgraph.dijkstra(matrix, indices=np.searchsorted(ids, places))
expected = rows[np.arange(1000) % 3, np.searchsorted(ids, homes)].sum()
assert flow["flow"] @ held.weights == expected
""",
    "travel-time-matrix": """
vertices = np.searchsorted(store.ids.column().to_numpy(), snapped["vertex"])
rows = csgraph.dijkstra(matrix, indices=vertices[: len(homes)])
np.testing.assert_array_equal(times.to_numpy(), rows[:, vertices[len(homes) :]])
assert (snapped["distance_m"] < 50).all()
passed = np.searchsorted(store.ids.column().to_numpy(), path)
assert matrix[passed[:-1], passed[1:]].sum() == times.loc[home, school] == times.loc[home].min()
written = pd.read_csv(folder / "times.csv").pivot(index="home", columns="school", values=UNIT)
np.testing.assert_array_equal(written.loc[homes.index, schools.index], times)
""",
    "web-graph": """
some = pages["source"].to_numpy()[:: len(pages) // 20]
rows = csgraph.dijkstra(matrix, indices=np.searchsorted(ids, some))
reached = np.isfinite(rows).sum(axis=1)
total = np.where(np.isfinite(rows), rows, 0).sum(axis=1)
expected = (reached - 1) ** 2 / (len(ids) - 1) / np.maximum(total, 1)
found = pages.set_index("source").loc[some]
np.testing.assert_array_equal(found["reached"], reached)
np.testing.assert_allclose(found["closeness"], expected, rtol=1e-14)
np.testing.assert_array_equal(found["links_to_it"], (rows == 1).sum(axis=1))
assert both.corr().loc["exact", "estimate"] > 0.9
""",
    "landmarks": """
places = np.searchsorted(ids, landmarks)
np.testing.assert_array_equal(csgraph.dijkstra(matrix, indices=places).T, encoding)
assert len(set(landmarks)) == LANDMARKS
order = np.lexsort([np.broadcast_to(np.array(landmarks), encoding.shape), encoding])[:, :3]
np.testing.assert_array_equal(nearest["vertex"], np.array(landmarks)[order].ravel())
np.testing.assert_array_equal(nearest["distance"], np.take_along_axis(encoding, order, 1).ravel())
assert shares["degree"] < 0.6 * shares[f"{LANDMARKS} landmarks"]
""",
}

#: Real graphs for the notebooks: the parameters that are files, and the other parameters.
REAL = {
    "accessibility": (
        {"EDGES": "USA-road-d.NY.gr.gz", "COORDINATES": "USA-road-d.NY.co.gz"},
        {"RADII": [10_000, 50_000], "ON_THE_MAP": 300},
    ),
    "along-the-paths": (
        {"EDGES": "USA-road-d.NY.gr.gz", "COORDINATES": "USA-road-d.NY.co.gz"},
        {"SAMPLE": 8, "PIVOTS": 4},
    ),
    "travel-time-matrix": ({"EDGES": "USA-road-t.NY.gr.gz", "COORDINATES": "USA-road-d.NY.co.gz"}, {}),
    "web-graph": ({"LINKS": "wiki-Vote.txt"}, {"PAGES": {"random": {"count": 500, "seed": 1}}}),
    "landmarks": ({"EDGES": "facebook_combined.txt"}, {}),
}


@pytest.fixture
def executed(tmp_path, monkeypatch):
    """Give a function that runs a notebook, whose files are below `tmp_path`, and the checks of its results."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))

    def run(path: Path, **parameters: object) -> nbformat.NotebookNode:
        last = SCIPY + CHECKS[path.stem]
        return run_notebooks.executed(run_notebooks.read(path), parameters, last)

    return run


def test_every_notebook_has_checks():
    assert {path.stem for path in NOTEBOOKS} == CHECKS.keys() == REAL.keys()


@pytest.mark.medium
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_the_file_shows(path, executed):
    done = executed(path)
    check = done.cells.pop()
    assert not check.outputs
    assert run_notebooks.first_difference(run_notebooks.read(path), done) is None, "run `make notebooks`"


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_on_a_real_graph(path, executed, data_file):
    files, others = REAL[path.stem]
    done = executed(path, **{name: str(data_file(file)) for name, file in files.items()}, **others)
    assert done.cells[-1].source.endswith(CHECKS[path.stem])
    assert not done.cells[-1].outputs, "the checks ran and printed nothing"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_quiet(path):
    assert path.stat().st_size < 60_000
    outputs = [output for cell in run_notebooks.read(path).cells for output in cell.get("outputs", ())]
    assert outputs
    assert {output.output_type for output in outputs} <= {"display_data", "execute_result"}  # no warnings


@pytest.fixture
def one_notebook(tmp_path, monkeypatch):
    """Give a function that makes a folder of one notebook with one cell, and returns its path."""
    monkeypatch.setattr(run_notebooks, "NOTEBOOKS", tmp_path)

    def make(source: str) -> Path:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
        nbformat.write(notebook, tmp_path / "one.ipynb")
        return tmp_path / "one.ipynb"

    return make


@pytest.mark.medium
def test_a_stale_notebook_is_named_and_written_again(one_notebook, capsys):
    path = one_notebook("1 + 1")
    assert run_notebooks.main(["--check"]) == 1
    told = "error: stale in docs/notebooks: one.ipynb\n\nhint: run `make notebooks`\n"
    assert capsys.readouterr().err == told
    assert run_notebooks.main([]) == 0
    shutil.copy(path, path.with_name("same.ipynb"))
    path.write_text(path.read_text(encoding="utf-8").replace('"1 + 1"', '"1 + 2"'), encoding="utf-8")
    assert run_notebooks.main(["--check"]) == 1
    assert "notebooks: one.ipynb\n" in capsys.readouterr().err


@pytest.mark.medium
def test_a_cell_that_fails_ends_the_run(one_notebook):
    path = one_notebook("1 / 0")
    before = path.read_bytes()
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        run_notebooks.main([])
    assert path.read_bytes() == before


def test_another_argument_is_refused(capsys):
    assert run_notebooks.main(["--chekc"]) == 2
    assert capsys.readouterr().err == "error: unknown arguments `--chekc`\n\nhint: only --check is known\n"
