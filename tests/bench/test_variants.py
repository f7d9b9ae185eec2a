"""The bench file: every fault with its line, all at once; which variants it asks for, and what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.bench.spec import RandomSources
from sssp_pipeline.bench.variants import load_bench, variants_of

pytestmark = pytest.mark.usefixtures("tuned")

LEAST = 'graphs: [{name: star, graph: {input: "generated:star"}}]\nsolvers: [dijkstra]\nsources: {count: 2}\n'
EVERY_FAULT = """\
graphs:
  - {name: a b, graph: {input: "generated:star"}}
  - name: star
    graph: {input: "generated:star", directd: false}
  - {name: star, graph: {input: e.txt, format: text}}
  - {name: none}
  - {name: two, graph: {input: x}, store: y, hashed_weights: 0}
  - {name: typo, stor: y}
solvers:
  - dijkstr
  - {solver: tuned, options: {splits: true}, togethr: 2}
  - {solver: tuned, options: {lanes: [8, 7], sorts: {a: 1}}}
  - {solver: adds, together: 0}
  - {solver: tuned, options: {lanes: 8, sorts: true}}
sources: {count: 2, min_reach: 1.5}
subject: dijkstra
runs: 0
most_s: -1
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load a text as `b.yaml` in the current folder."""
    monkeypatch.chdir(tmp_path)

    def load_text(text, *overrides):
        Path("b.yaml").write_text(text, encoding="utf-8")
        return load_bench("b.yaml", overrides)

    return load_text


def labels(bench):
    return [variant.label for variant in variants_of(bench)]


def test_the_least_file_has_the_defaults(load):
    bench = load(LEAST)
    assert (bench.name, bench.runs, bench.warm_ups, bench.most_s) == ("bench", 8, 1, 60)
    assert (bench.baseline, bench.subject, bench.sources.min_reach) == (None, None, 1)
    assert labels(bench) == ["dijkstra"]


def test_every_fault_is_reported_at_once_with_its_line(load):
    with pytest.raises(InputError) as caught:
        load(EVERY_FAULT)
    assert caught.value.message.splitlines() == [
        "`b.yaml` line 2: `graphs[0].name` is `a b`, wanted text such as `grid-2048`",
        "`b.yaml` line 4: unknown key `directd` in `graphs[1].graph`",
        "`b.yaml` line 5: two graphs are called `star`",
        "`b.yaml` line 6: graph `none` has neither `graph` nor `store`",
        "`b.yaml` line 7: `graphs[4].hashed_weights` is `0`, wanted an integer from 1 to 16,777,216 or `null`",
        "`b.yaml` line 7: graph `two` has both `graph` and `store`",
        "`b.yaml` line 8: unknown key `stor` in `graphs[5]`",
        "`b.yaml` line 10: unknown solver `dijkstr`",
        "`b.yaml` line 11: unknown key `togethr` in `solvers[1]`",
        "`b.yaml` line 11: solver `tuned` has no option `splits`",
        "`b.yaml` line 12: `solvers[2].options.sorts` is a section, wanted `true`, `false`, a number, text or "
        "a list that is not empty",
        "`b.yaml` line 12: option `lanes` of solver `tuned` is 7",
        "`b.yaml` line 13: `solvers[3].together` is `0`, wanted an integer above 0",
        "`b.yaml` line 14: 8 lanes cannot sort",
        "`b.yaml` line 15: `sources.min_reach` is `1.5`, wanted an integer above 0 or a number between 0 and 1",
        "`b.yaml` line 17: `runs` is `0`, wanted an integer above 0",
        "`b.yaml` line 18: `most_s` is `-1`, wanted a number above 0",
    ]
    hints = caught.value.hint.splitlines()
    assert hints[:3] == [
        "line 2: correct `graphs[0].name`: Name in lines and tables, and of the folder in which its "
        "graph store is kept.",
        "line 4: did you mean `directed`? Keys: input, format, encoding, delimiter, header, decimal, columns, "
        "coordinates, directed, weights, ids, unreadable, max_line_bytes, duplicates, self_loops, "
        "vertices, memory, changes, store, layer, profile",
        "line 5: give each a name of its own",
    ]
    assert "line 12: it is `auto` or a multiple of 2, 2 to 64" in hints


def test_an_empty_file_says_where_to_look(load):
    with pytest.raises(InputError) as caught:
        load("")
    assert caught.value.message == "`b.yaml` is empty"
    assert caught.value.hint == "docs/reference/bench.md says what a bench file holds"


def test_lists_make_a_variant_of_every_combination_and_none_twice(load):
    bench = load(
        LEAST,
        "solvers=[tuned, {solver: tuned, options: {sorts: [false, true], lanes: [auto, 16]}}, "
        "{solver: tuned, together: 64, options: {lanes: 32}}, tuned]",
    )
    found = variants_of(bench)
    assert labels(bench) == [
        "tuned",
        "tuned lanes=16",
        "tuned sorts=true",
        "tuned sorts=true lanes=16",
        "tuned lanes=32 x64",
    ]
    assert [v.options for v in found][:2] == [
        {"sorts": False, "lanes": "auto"},
        {"sorts": False, "lanes": 16},
    ]
    assert found[4].changed == {"lanes": 32}


def test_baseline_and_subject_are_variants(load):
    solvers = "solvers=[dijkstra, {solver: adds, together: 256}]"
    assert load(LEAST, solvers, "baseline=dijkstra", "subject=adds x256").subject == "adds x256"
    with pytest.raises(InputError) as caught:
        load(LEAST, solvers, "baseline=adds")
    assert caught.value.message == "`--set baseline`: `baseline` is `adds`, and no variant is called so"
    assert caught.value.hint == "did you mean `adds x256`? Variants: `dijkstra`, `adds x256`"


@pytest.mark.parametrize(
    ("min_reach", "n_vertices", "expected"), [(1, 10, 1), (500, 10, 500), (0.5, 9, 5), (0.001, 9, 1)]
)
def test_a_share_of_the_vertices_is_a_number_of_each_graph(min_reach, n_vertices, expected):
    sources = RandomSources(count=3, seed=4, min_reach=min_reach).of(n_vertices)
    assert sources.random.model_dump() == {"count": 3, "seed": 4, "min_reach": expected}
