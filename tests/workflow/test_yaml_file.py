"""The file: every fault with its line, all at once; environment, overrides, YAML itself."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.workflow import yaml_file
from sssp_pipeline.workflow.validation import MAX_FAULTS_SHOWN
from sssp_pipeline.workflow.yaml_file import MAX_FILE_BYTES, load_workflow

LEAST = "graph:\n  input: edges.txt\nsources: {all: true}\noutput:\n  path: out\n"
WORKFLOWS = Path(__file__).parents[2] / "workflows"


FAULTS = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"))


def table(key: str) -> list[tuple]:
    """Return a table of faults: what has the fault, the message and the hint."""
    return [tuple(case.values()) for case in FAULTS[key]]


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load a text as `road.yaml` in the current folder."""
    monkeypatch.chdir(tmp_path)

    def load_text(text, overrides=(), **environ):
        Path("road.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_workflow("road.yaml", overrides, environ)

    return load_text


def refused(load, *arguments, **environ) -> InputError:
    with pytest.raises(InputError) as caught:
        load(*arguments, **environ)
    return caught.value


def test_an_option_that_is_a_section_is_named(load):
    error = refused(load, LEAST, ["solve={solver: adds, options: {x: {a: 1}}}"])
    assert error.message == (
        "`--set solve`: `solve.options.x` is a section, wanted `true`, `false`, a number or text"
    )


def test_the_name_is_the_files_own(load):
    assert load(LEAST).name == "road"
    assert load("name: ny\n" + LEAST).name == "ny"


def test_the_name_has_nothing_of_a_signature(monkeypatch):
    monkeypatch.setattr("sssp_pipeline.workflow.yaml_file.open_read", lambda url: io.BytesIO(LEAST.encode()))
    for query in ("", "?sig=SECRET.x", "?sig=a/SECRET.x"):
        assert load_workflow("https://host/folder/my.yaml" + query).name == "my"


def test_every_fault_is_reported_at_once_with_its_line(load):
    text = """\
version: 2
graph:
  input: ${ROAD}
  formt: text
  directed: yes
  store: out/graph
sources: {random: {count: 0}, ids: [1, -2]}
solve:
  delta: -5
  delta: 6
  predecessors: true
cluster: {kind: addres}
output:
  path: out
  layout: wide
verify: of
"""
    error = refused(load, text, ["solve.detla=5", "cluster.workers=two"])
    assert error.exit_code == 2
    assert error.message.splitlines() == [
        "`--set solve.detla`: unknown key `detla` in `solve`",
        "`--set cluster.workers`: `cluster.workers` is `two`, wanted `auto`, an integer above 0 or "
        "a section with `minimum`, `maximum`",
        "`road.yaml` line 1: `version` is `2`, wanted `1`",
        "`road.yaml` line 3: environment variable `ROAD` is not set",
        "`road.yaml` line 4: unknown key `formt` in `graph`",
        "`road.yaml` line 5: `graph.directed` is `yes`, wanted `true`, `false` or `reversed`",
        "`road.yaml` line 6: one of the folders `graph.store` and `output.path` is inside the other",
        "`road.yaml` line 7: `sources.ids[1]` is `-2`, wanted an integer of at least 0 or text",
        "`road.yaml` line 7: `sources.random.count` is `0`, wanted an integer above 0",
        "`road.yaml` line 7: `sources` has `ids` and `random`",
        "`road.yaml` line 9: `solve.delta` is `-5`, wanted `auto` or a number above 0",
        "`road.yaml` line 10: key `delta` is given twice",
        "`road.yaml` line 12: `cluster.kind` is `addres`, wanted `auto`, `local-cpu`, `local-cuda`, "
        "`address`, `slurm` or `kubernetes`",
        "`road.yaml` line 15: layout `wide` has no place for predecessors",
        "`road.yaml` line 16: `verify` is `of`, wanted `off`, `sample` or `certificate`",
    ]
    hints = error.hint.splitlines()
    assert "line 3: set it, or give a default: `${ROAD:-value}`" in hints
    assert "line 12: did you mean `address`?" in hints
    assert hints[0] == (
        "`--set solve.detla`: did you mean `delta`? Keys: weights, solver, hierarchy, options, direction, "
        "delta, batch, cutoff, predecessors, along, trace_every_us, deadline_s, retries"
    )


@pytest.mark.parametrize(("added", "message", "hint"), table("added"))
def test_one_fault(load, added, message, hint):
    error = refused(load, LEAST + added)
    assert error.message == message
    assert error.hint.startswith("correct `") if hint is None else error.hint == hint


def test_a_broken_key_hides_no_other_fault(load):
    error = refused(load, LEAST + "? [a]\n: b\nverify: of\nverify: off\n")
    assert error.message.splitlines() == [
        "`road.yaml` line 6: a key is not text",
        "`road.yaml` line 8: `verify` is `of`, wanted `off`, `sample` or `certificate`",
        "`road.yaml` line 9: key `verify` is given twice",
    ]


@pytest.mark.parametrize("digits", [10, 300, 301, 400])
def test_a_number_of_any_length(load, digits):
    text = LEAST + f"solve: {{delta: {'9' * digits}}}\n"
    if digits < 309:
        assert float(load(text).solve.delta) == float("9" * digits)
    else:
        assert refused(load, text).message == (
            "`road.yaml` line 6: `solve.delta` is `inf`, wanted `auto` or a number above 0"
        )


def test_missing_keys(load):
    error = refused(load, "graph:\n  format: text\noutput: {path: out}\n")
    assert error.message.splitlines() == [
        "`road.yaml`: no key `sources`",
        "`road.yaml` line 1: no key `input` in `graph`",
    ]
    assert error.hint.splitlines() == [
        "`road.yaml`: add `sources`: The vertices to start from.",
        "line 1: add `input`: One URL, a list of URLs, or a glob. "
        "A local path without a scheme starts at the current folder.",
    ]


def test_a_fault_in_a_list_has_the_line_of_the_item(load):
    error = refused(load, LEAST.replace(" edges.txt", "\n    - a\n    - 5\n    - b"))
    assert error.message == "`road.yaml` line 4: `graph.input[1]` is `5`, wanted text"


def test_a_long_list_of_faults_is_cut(load):
    error = refused(load, LEAST.replace("{all: true}", f"{{ids: [{'-1, ' * 50}]}}"))
    lines = error.message.splitlines()
    assert len(lines) == MAX_FAULTS_SHOWN + 1
    assert lines[-1] == f"`road.yaml`: and {50 - MAX_FAULTS_SHOWN} more"


def test_a_long_value_is_cut(load):
    error = refused(load, LEAST + f"verify: {'x' * 100}\n")
    assert f"is `{'x' * 60}…`, wanted" in error.message


@pytest.mark.parametrize(("content", "message", "hint"), table("content"))
def test_what_is_no_workflow_at_all(load, content, message, hint):
    error = refused(load, content)
    assert error.message == message
    assert error.hint == hint


@pytest.mark.medium
@pytest.mark.usefixtures("no_garbage_collection")
def test_what_is_nested_too_deeply(load):
    error = refused(load, "[" * 5000)
    assert error.message == "`road.yaml` line 1: nested too deeply"
    assert error.hint == "check its brackets: a workflow has four levels"


def test_a_file_that_is_no_workflow_is_not_read_to_its_end(load):
    long = "# " + "x" * (MAX_FILE_BYTES - len(LEAST) - 3) + "\n"
    assert len(long + LEAST) == MAX_FILE_BYTES
    load(long + LEAST)
    error = refused(load, long + LEAST + "\n")
    assert error.message == (
        "`road.yaml` is longer than 4,194,304 bytes, the most that a file of this kind may have"
    )
    assert "`sources: {file: ids.txt}`" in error.hint


@pytest.mark.parametrize("length", ["9" * 5000 + "MB", "9" * 5000 + " GiB", "0." + "9" * 5000 + "GB"])
def test_an_amount_of_memory_has_15_digits(load, length):
    error = refused(load, LEAST + f"cluster: {{memory_limit: {length}}}\n")
    assert "wanted `auto` or text such as `4GB`" in error.message
    assert load(LEAST + "cluster: {memory_limit: 999999999999999B}\n").cluster.memory_limit


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError) as caught:
        load_workflow(str(tmp_path / "none.yaml"))
    assert caught.value.message == f"`{tmp_path}/none.yaml` does not exist"


def test_a_byte_order_mark_is_no_fault(load):
    assert load(b"\xef\xbb\xbf" + LEAST.encode()).name == "road"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("5", 5), ("+5", 5), ("0x1F", 31), ("0o17", 15)),
        *(("5e2", 500.0), ("5.", 5.0), (".5", 0.5), ("1.5E-1", 0.15)),
    ],
)
def test_numbers_follow_yaml_1_2(load, text, value):
    delta = load(LEAST + f"solve: {{delta: {text}}}\n").solve.delta
    assert delta == value
    assert type(delta) is type(value)


def test_digits_with_a_leading_zero_are_text(load):
    assert load(LEAST.replace("all: true", "ids: [007, -01, 00.5, 0]")).sources.ids == (
        "007",
        "-01",
        "00.5",
        0,
    )


@pytest.mark.parametrize("text", ["null", "~", "Null", ""])
def test_null(load, text):
    assert load(LEAST + f"solve:\n  cutoff: {text}\n").solve.cutoff is None


@pytest.mark.parametrize("word", ["off", "2024-01-02", "1:30", "yes", "1_000"])
def test_words_of_yaml_1_1_are_text(load, word):
    assert load(f"name: {word}\n" + LEAST).name == word


def test_quoted_values_are_text(load):
    assert load(LEAST.replace("{all: true}", '{ids: ["1", 2, a]}')).sources.ids == ("1", 2, "a")


def test_environment(load):
    text = LEAST.replace("edges.txt", "${ROOT}/${FILE:-edges.txt}").replace("path: out", "path: '$${x}'")
    workflow = load(text, ROOT="s3://bucket")
    assert workflow.graph.inputs == ["s3://bucket/edges.txt"]
    assert workflow.output.path == "${x}"
    assert load(text, ROOT="a", FILE="").graph.inputs == ["a/edges.txt"]
    assert load(text, ROOT="", FILE="b").graph.inputs == ["/b"]


def test_an_unquoted_variable_is_read_as_yaml_and_a_quoted_one_as_text(load):
    text = LEAST + "solve:\n  batch: ${BATCH}\nname: '${BATCH}'\n"
    workflow = load(text, BATCH="7")
    assert workflow.solve.batch == 7
    assert workflow.name == "7"


@pytest.mark.parametrize("written", ["${", "${}", "${1A}", "${A", "${A-b}"])
def test_a_variable_without_a_name(load, written):
    error = refused(load, LEAST + f"name: '{written}'\n")
    assert error.message == f"`road.yaml` line 6: `{written}` has a `${{` that names no variable"
    assert error.hint == "write `${NAME}`, or `$${` for a plain `${`"


def test_values_of_the_environment_are_not_told(load):
    text = LEAST + "verify: ${SECRET}\nsolve:\n  batch: ${SECRET}\ncluster:\n  kind: ${SECRET}\n"
    error = refused(load, text, SECRET="hunter2")
    assert "hunter2" not in f"{error.message}{error.hint}"
    assert error.message.splitlines()[0] == (
        "`road.yaml` line 6: `verify` is `${SECRET}`, wanted `off`, `sample` or `certificate`"
    )


def test_values_of_the_environment_do_not_reach_run_json(load):
    text = LEAST.replace("edges.txt", "[a.txt, 'https://host/${TOKEN}/b.txt', '${HERE:-c.txt}']")
    text = text.replace("path: out", "path: ${OUT}/run")
    workflow = load(text, TOKEN="hunter2", OUT="s3://bucket")
    resolved = workflow.resolved()
    assert resolved["graph"]["input"] == ["a.txt", "https://host/${TOKEN}/b.txt", "c.txt"]
    assert resolved["output"]["path"] == "${OUT}/run"
    digest = workflow.graph.digest_in("s3://bucket")
    assert resolved["graph"]["store"] == f"${{OUT}}/a-graph-{digest}"
    assert workflow.store == f"s3://bucket/a-graph-{digest}"
    text = LEAST.replace("edges.txt", "${TOKEN}-roads.csv").replace("path: out", "path: ${OUT}")
    workflow = load(text, TOKEN="hunter2", OUT="/o/x")
    assert workflow.resolved()["graph"]["store"] == workflow.store.replace("/o/", "${OUT}/../")
    assert workflow.store.startswith("/o/roads-graph-")


def test_overrides(load):
    overrides = [
        "solve.delta=500",
        "graph.input=[a, b]",
        "cluster.workers=2",
        "sources={random: {count: 3}}",
        "sources.random.seed=9",
        "name=",
    ]
    error = refused(load, LEAST, overrides)
    assert error.message == "`--set name`: `name` is empty, wanted text"
    workflow = load(LEAST, overrides[:-1])
    assert workflow.solve.delta == 500
    assert workflow.graph.inputs == ["a", "b"]
    assert workflow.cluster.workers == 2
    assert (workflow.sources.random.count, workflow.sources.random.seed) == (3, 9)


@pytest.mark.parametrize("environ", [{}, {"ROAD": "secret.gr"}])
def test_an_override_replaces_a_fault_and_a_value_of_the_environment(load, environ):
    text = LEAST.replace("edges.txt", "${ROAD}") + "verify: of\n"
    workflow = load(text, ["graph.input=road.gr", "verify=off"], **environ)
    assert workflow.graph.inputs == ["road.gr"]
    assert workflow.resolved()["graph"]["input"] == "road.gr"


def test_an_override_may_use_the_environment(load):
    assert load(LEAST, ["graph.input=${ROAD}"], ROAD="road.gr").graph.inputs == ["road.gr"]


@pytest.mark.parametrize("mark", [",", "|", "tab", ";"])
def test_a_mark_after_set_is_the_value(load, mark):
    assert load(LEAST, [f"graph.delimiter={mark}"]).graph.delimiter == mark
    assert load(LEAST, ["graph.input=-"]).graph.inputs == ["-"]


def test_a_column_may_have_a_number_as_its_name(load):
    graph = load(
        LEAST, ["graph.columns.source=0", "graph.columns.target='1'", "graph.weights.column=0"]
    ).graph
    assert (graph.columns.source, graph.columns.target, graph.weights.column) == (0, "1", 0)


@pytest.mark.parametrize(("override", "message", "hint"), table("override"))
def test_faults_of_overrides(load, override, message, hint):
    error = refused(load, "name: road\n" + LEAST, [override])
    assert error.message == message
    assert error.hint == hint


@pytest.mark.parametrize("path", sorted(WORKFLOWS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_shipped_workflows_are_valid_and_headed(path):
    load_workflow(str(path), environ={})
    head = path.read_text(encoding="utf-8").split("\nversion:")[0]
    for label in ("# Cost:", "# Result:", "# Command:"):
        assert label in head


def test_workflows_are_shipped():
    assert {path.stem for path in WORKFLOWS.glob("*.yaml")} == {"quickstart", "road-ny", "web", "strings"}


@pytest.fixture
def noon(monkeypatch):
    """Stop the clock at 2026-11-21 12:03:04."""
    monkeypatch.setattr(yaml_file, "_now", lambda: datetime(2026, 11, 21, 12, 3, 4, tzinfo=UTC))


def test_the_output_path_may_have_the_date_the_time_and_the_name(load, noon):
    workflow = load(LEAST.replace("path: out", "path: 'runs/{date}/{name}-{time}'"))
    assert workflow.output.path == "runs/2026-11-21/road-120304"
    assert workflow.resolved()["output"]["path"] == "runs/2026-11-21/road-120304"
    named = load("name: night\n" + LEAST.replace("path: out", "path: '${OUT}/{name}-{date}'"), OUT="/a")
    assert named.output.path == "/a/night-2026-11-21"
    assert named.resolved()["output"]["path"] == "${OUT}/night-2026-11-21"


def test_the_graph_store_may_have_the_name(load):
    assert load(LEAST, ["graph.store=graphs/{name}"]).store == "graphs/road"


@pytest.mark.parametrize(
    ("key", "value", "unknown", "known"),
    [
        ("output.path", "runs/{day}", "{day}", "`{date}`, `{time}`, `{name}`"),
        ("output.path", "runs/{}", "{}", "`{date}`, `{time}`, `{name}`"),
        ("graph.store", "{date}", "{date}", "`{name}`"),
    ],
)
def test_other_names_in_braces_are_refused_with_their_line(load, key, value, unknown, known):
    with pytest.raises(InputError) as caught:
        load(LEAST, [f"{key}='{value}'"])
    assert caught.value.message == f"`--set {key}`: `{key}` has `{unknown}`, which is not a known name"
    assert caught.value.hint == f"known here: {known}"
    error = refused(load, LEAST.replace("path: out", "path: '{day}'"))
    line = LEAST[: LEAST.index("path: out")].count("\n") + 1
    assert error.message == f"`road.yaml` line {line}: `output.path` has `{{day}}`, which is not a known name"
