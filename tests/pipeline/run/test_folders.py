"""Output folders are kept safe: other files are neither overwritten nor removed, and damage is found."""

import itertools
import json
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sssp_pipeline.base.errors import InputError, RefutedError, SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.cli import app
from sssp_pipeline.pipeline.results.folder.damage import damage_of, recorded_files
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.layouts.long import LongLayout
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.solving import dispatch
from sssp_pipeline.pipeline.solving import solve_task as worker_side
from sssp_pipeline.storage import files as storage
from sssp_pipeline.storage.file_sums import sum_of
from sssp_pipeline.workflow.models import Workflow

OVERWRITE = "`sssp-pipeline run WORKFLOW --overwrite` solves it anew"
AGAIN = "`sssp-pipeline run WORKFLOW` solves what is damaged again"


def made(tmp_path: Path, path: str | None = None, **sections) -> Workflow:
    data = {
        "graph": {"input": "generated:grid?rows=20&cols=21&seed=3", "store": str(tmp_path / "graph")},
        "sources": {"random": {"count": 10, "seed": 1}},
        "solve": {"batch": 4, "solver": "dijkstra", "retries": 0},
        "output": {"path": path or str(tmp_path / "run")},
    }
    for key, value in sections.items():
        data[key] = {**data.get(key, {}), **value}
    return Workflow.model_validate(data)


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["report.html"], "report.html"),
        (["metrics.parquet", "notes.txt"], "metrics.parquet, notes.txt"),
        (["_run/notes.txt"], "_run"),
        (["distances/batch-00000.parquet"], "distances"),
        (["distances/mine.parquet"], "distances"),
        (["run.json"], "run.json"),
        ([".hidden"], ".hidden"),
        (["sub/folder/file"], "sub"),
        ([f"{i}.txt" for i in range(11)], ", ".join(f"{i}.txt" for i in (0, 1, 10, *range(2, 9))) + ", …"),
    ],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_other_files_is_refused_before_anything_is_done(tmp_path, names, shown, overwrite):
    for name in names:
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_text('{"a": 1}')
    before = content(tmp_path)
    with pytest.raises(InputError) as caught:
        run(made(tmp_path), Quiet(), overwrite=overwrite)
    assert caught.value.message == (f"`{tmp_path}/run` is not empty and does not hold a run: it has {shown}")
    assert caught.value.hint == "name an empty or a new folder as `output.path`"
    assert content(tmp_path) == before


@pytest.mark.parametrize("path", ["/", "//", "/tmp/..", "file:///"])
def test_the_root_is_no_output_folder(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        run(made(tmp_path, path, graph={"store": "graph"}), Quiet())
    assert caught.value.message.endswith(", the root of the filesystem")
    assert caught.value.hint == "name a folder for the results"
    assert not (tmp_path / "graph").exists()


def test_a_graph_store_is_no_output_folder(tmp_path):
    run(made(tmp_path), Quiet())
    before = content(tmp_path / "graph")
    with pytest.raises(InputError, match=r"does not hold a run: it has edges, manifest\.json"):
        elsewhere = {"store": str(tmp_path / "other")}
        run(made(tmp_path, str(tmp_path / "graph"), graph=elsewhere), Quiet())
    assert content(tmp_path / "graph") == before


def test_what_killed_processes_leave_is_no_other_file(tmp_path):
    folder = tmp_path / "run"
    (folder / "_run").mkdir(parents=True)
    (folder / "distances").mkdir()
    temporary = [f"{storage.TEMP_PREFIX}0-run.json", f"distances/{storage.TEMP_PREFIX}0-batch"]
    for name in ["_run/started.json", "_run/targets.u32", "distances/wide-00000.parquet", *temporary]:
        (folder / name).touch()
    # What was left of a run without distances does not count for this one.
    run(made(tmp_path, output={"distances": "none"}), Quiet())
    assert sorted(content(folder)) == ["metrics.parquet", "report.html", "run.json"]


@pytest.mark.medium
def test_overwrite_removes_the_earlier_run_and_nothing_else(tmp_path):
    run(made(tmp_path), Quiet())
    foreign = ["notes.txt", "distances/mine.txt", "sub/run.json"]
    for name in foreign:
        (tmp_path / "run" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "run" / name).write_text("mine")
    store = content(tmp_path / "graph")
    other = made(tmp_path, sources={"random": None, "ids": [5]}, output={"layout": "wide"})
    with pytest.raises(InputError, match="holds another run: it differs in") as caught:
        run(other, Quiet())
    assert caught.value.hint == "choose another `output.path`, or replace that run with `--overwrite`"
    _, record = run(other, Quiet(), overwrite=True)
    assert record["sources"] == 1
    ours = ["distances/batch-00000.parquet", "metrics.parquet", "report.html", "run.json"]
    assert sorted(content(tmp_path / "run")) == sorted(foreign + ours)
    assert content(tmp_path / "graph") == store


@pytest.mark.medium
def test_overwrite_solves_a_finished_run_again_and_nothing_is_a_run_too(tmp_path, listener):
    run(made(tmp_path), Quiet(), overwrite=True)
    again, heard = content(tmp_path / "run" / "distances"), listener()
    run(made(tmp_path), heard, overwrite=True)
    assert not any("nothing to solve" in line for line in heard.lines)
    assert content(tmp_path / "run" / "distances") == again


def fails_at_batch_2(task, solve=worker_side._solved):
    if 2 in task.numbers:
        raise OSError("the power failed")
    return solve(task)


class Killed(BaseException):
    """Ends the process between two steps."""


@pytest.mark.medium
@pytest.mark.parametrize("unfinished", [False, True])
def test_killed_at_every_step_of_a_removal_the_folder_is_still_a_runs(tmp_path, monkeypatch, unfinished):
    run(made(tmp_path), Quiet())
    original = content(tmp_path / "run")
    if unfinished:
        with monkeypatch.context() as patched, pytest.raises(SsspError):
            patched.setattr(worker_side, "_solved", fails_at_batch_2)
            run(made(tmp_path), Quiet(), overwrite=True)
    (tmp_path / "run" / "notes.txt").write_text("mine")
    shutil.move(tmp_path / "run", tmp_path / "kept")
    names = ("write_atomic", "remove", "remove_if_empty")
    real = {name: getattr(storage, name) for name in names}

    def one_by_one(url, files):
        for name in files:
            storage.remove(storage.join(url, name))

    for steps in itertools.count():
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(tmp_path / "kept", tmp_path / "run")
        left, was_killed = itertools.count(steps, -1), True
        with monkeypatch.context() as patched, suppress(Killed):

            def dying(name, left=left):
                def step(*args, **options):
                    if next(left) == 0:
                        raise Killed
                    return real[name](*args, **options)

                return step

            for name in names:
                patched.setattr(storage, name, dying(name))
            patched.setattr(storage, "remove_files", one_by_one)
            RunFolder(str(tmp_path / "run")).remove()
            was_killed = False
        # Of a run that was not touched yet, all is there still; else the next run removes the rest.
        RunFolder(str(tmp_path / "run")).check_ours()
        run(made(tmp_path), Quiet())
        found = content(tmp_path / "run")
        assert found.pop("notes.txt") == b"mine"
        assert found.keys() == original.keys()
        batches = [name for name in original if "batch" in name]
        assert [found[name] for name in batches] == [original[name] for name in batches]
        assert pq.read_table(tmp_path / "run" / "metrics.parquet").num_rows == 10
        if not was_killed:
            break
    assert steps >= 5


def flipped(content: bytes) -> bytes:
    """Return `content` with a bit in its middle flipped."""
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


@pytest.mark.medium
@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (None, "is gone"),
        (lambda c: b"", "was altered: it has 0 bytes, and had {} when it was written"),
        (lambda c: c[:-1], "was altered: it has {less} bytes, and had {} when it was written"),
        (lambda c: c + b"x", "was altered: it has {more} bytes, and had {} when it was written"),
    ],
)
def test_a_damaged_batch_of_a_finished_run_is_solved_again_and_no_other(tmp_path, listener, damage, fault):
    run(made(tmp_path), Quiet())
    path = tmp_path / "run" / "distances" / "batch-00001.parquet"
    whole, before = content(tmp_path / "run" / "distances"), path.read_bytes()
    metrics = (tmp_path / "run" / "metrics.parquet").read_bytes()
    path.unlink() if damage is None else path.write_bytes(damage(before))
    heard, n = listener(), len(before)
    _, record = run(made(tmp_path), heard)
    text = fault.format(n, less=n - 1, more=n + 1)
    assert f"`{path}` {text}: it is written again" in heard.lines
    assert "solved 4 sources x 420 vertices with 1 thread" in heard.lines
    assert record["verify"]["refuted"] is None
    assert content(tmp_path / "run" / "distances") == whole
    assert (tmp_path / "run" / "metrics.parquet").read_bytes() == metrics
    assert not (tmp_path / "run" / "_run").exists()
    heard = listener()
    run(made(tmp_path), heard)
    assert f"{tmp_path / 'run'} is finished already, nothing to solve" in heard.lines


@pytest.mark.medium
@pytest.mark.parametrize(
    ("name", "damage", "fault"),
    [
        (
            "distances/batch-00001.parquet",
            flipped,
            "was altered: its CRC-32 is",
        ),  # the sample has 8 of 40 sources
        ("distances/batch-00001.parquet", None, "is gone"),
        ("metrics.parquet", flipped, "was altered: its CRC-32 is|is damaged|stored"),
    ],
)
def test_verify_finds_damage_and_the_run_that_its_hint_names_repairs_it(tmp_path, name, damage, fault):
    workflow = made(tmp_path, sources={"random": {"count": 40, "seed": 1}}, solve={"batch": 1})
    folder, _ = run(workflow, Quiet())
    whole, path = content(tmp_path / "run" / "distances"), tmp_path / "run" / name
    path.unlink() if damage is None else path.write_bytes(damage(path.read_bytes()))
    with pytest.raises((InputError, RefutedError), match=fault) as caught:
        verify_run(folder.url, None, "sample", Quiet())
    assert caught.value.hint == AGAIN
    run(workflow, Quiet())
    assert content(tmp_path / "run" / "distances") == whole
    assert "damaged" not in verify_run(folder.url, None, "certificate", Quiet())


def test_what_another_release_wrote_is_not_repaired(tmp_path, monkeypatch):
    run(made(tmp_path), Quiet())
    path = tmp_path / "run" / "distances" / "batch-00001.parquet"
    path.unlink()
    monkeypatch.setattr(LongLayout, "writer", "pages-9")
    with pytest.raises(InputError, match=r"batch-00001\.parquet` is gone") as caught:
        run(made(tmp_path), Quiet())
    assert caught.value.hint == OVERWRITE


def test_a_repair_that_fails_leaves_the_finished_run(tmp_path, monkeypatch):
    run(made(tmp_path), Quiet())
    path = tmp_path / "run" / "distances" / "batch-00001.parquet"
    path.unlink()
    whole, record = content(tmp_path / "run"), json.loads((tmp_path / "run" / "run.json").read_text())
    del whole["run.json"]

    with monkeypatch.context() as patched, pytest.raises(SsspError):
        patched.setattr(worker_side, "_solved", lambda task: 1 / 0)
        run(made(tmp_path), Quiet())
    assert whole.items() <= content(tmp_path / "run").items()
    damaged = json.loads((tmp_path / "run" / "run.json").read_text())
    assert damaged.pop("damaged") == ["distances/batch-00001.parquet"]
    assert damaged | {"checksum": ""} == record | {"checksum": ""}
    run(made(tmp_path), Quiet())
    assert path.exists()


@pytest.mark.parametrize("name", ["zzz.parquet", "batch-00003.parquet", "sub/zzz.parquet"])
def test_a_stray_file_is_named_by_run_and_by_verify(tmp_path, name):
    folder, _ = run(made(tmp_path), Quiet())
    stray = tmp_path / "run" / "distances" / name
    stray.parent.mkdir(exist_ok=True)
    shutil.copy(folder.batch_path(0), stray)
    for use in (
        lambda: run(made(tmp_path), Quiet()),
        lambda: verify_run(folder.url, None, "sample", Quiet()),
    ):
        with pytest.raises(InputError) as caught:
            use()
        assert caught.value.message == (
            f"`{stray}` is no file of this run, and whoever reads `distances/*.parquet` counts its rows too"
        )
        assert caught.value.hint == "move it to another folder"
    assert stray.exists()
    stray.rename(tmp_path / "run" / "distances" / "_zzz.parquet")  # readers leave it out
    run(made(tmp_path), Quiet())


def test_a_stray_file_ends_a_run_before_it_is_finished(tmp_path):
    folder, _ = run(made(tmp_path), Quiet())
    shutil.copy(folder.batch_path(0), tmp_path / "zzz.parquet")
    folder.remove()

    class Copies(Quiet):
        def advance(self, done: int, total: int | None, unit: str) -> None:
            shutil.copy(tmp_path / "zzz.parquet", tmp_path / "run" / "distances")

    with pytest.raises(InputError, match=r"zzz\.parquet` is no file of this run"):
        run(made(tmp_path), Copies())
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_link_in_place_of_a_folder_is_refused_and_what_it_leads_to_stays(tmp_path, overwrite):
    run(made(tmp_path), Quiet())
    (tmp_path / "run" / "distances").rename(tmp_path / "elsewhere")
    (tmp_path / "run" / "distances").symlink_to(tmp_path / "elsewhere")
    whole = content(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"run/distances` is a symbolic link"):
        run(made(tmp_path), Quiet(), overwrite=overwrite)
    assert content(tmp_path / "elsewhere") == whole


@pytest.mark.parametrize("damage", [lambda c: c.replace(b'"batches": 3', b'"batches": 2'), lambda c: c[:-9]])
def test_a_damaged_run_json_is_said_and_overwritten(tmp_path, damage):
    folder, _ = run(made(tmp_path), Quiet())
    path = tmp_path / "run" / "run.json"
    path.write_bytes(damage(path.read_bytes()))
    for use in (
        lambda: run(made(tmp_path), Quiet()),
        lambda: verify_run(folder.url, None, "sample", Quiet()),
    ):
        with pytest.raises(InputError, match=r"run\.json` is damaged: ") as caught:
            use()
        assert caught.value.hint == OVERWRITE
    run(made(tmp_path), Quiet(), overwrite=True)
    assert verify_run(folder.url, None, "certificate", Quiet())["verify"]["refuted"] is None


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_damaged_batches_of_an_unfinished_run_are_solved_again(tmp_path, monkeypatch, listener, layout):
    workflow = made(tmp_path, output={"layout": layout})
    run(workflow, Quiet())
    whole = content(tmp_path / "run" / "distances")
    shutil.rmtree(tmp_path / "run")

    with monkeypatch.context() as patched, pytest.raises(SsspError):
        patched.setattr(worker_side, "_solved", fails_at_batch_2)
        run(workflow, Quiet())
    path = tmp_path / "run" / "distances" / "batch-00001.parquet"
    n_bytes = path.stat().st_size
    path.write_bytes(b"")  # as a machine leaves it that loses its power
    heard = listener()
    run(workflow, heard)
    how = f"was altered: it has 0 bytes, and had {n_bytes} when it was written"
    assert f"`{path}` {how}: its batch is solved again" in heard.lines
    assert "going on: 1 of 3 batches are committed already" in heard.lines
    assert content(tmp_path / "run" / "distances") == whole


@pytest.mark.slow
def test_ten_thousand_batches_are_looked_at_in_seconds(tmp_path):
    folder = RunFolder(str(tmp_path / "run"))
    (tmp_path / "run" / "distances").mkdir(parents=True)
    first = Path(folder.batch_path(0))
    first.write_bytes(b"distances")
    for batch in range(1, 10_000):
        Path(folder.batch_path(batch)).hardlink_to(first)
    sums = {f"distances/{path.name}": sum_of(str(first)) for path in first.parent.iterdir()}
    assert len(sums) == 10_000
    began = time.monotonic()
    for content in (False, True):
        assert damage_of(folder.url, recorded_files(sums), content=content) == {}
    assert time.monotonic() - began < 20  # some 2 s where nothing else is going on


@pytest.mark.medium
def test_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("edges.txt").write_text("0 1 5\n1 2 7\n")
    Path("w.yaml").write_text(
        "graph: {input: edges.txt, store: 'graphs/{name}'}\nsources: {all: true}\noutput: {path: 'runs/{name}'}\n"
    )

    def invoke(*words):
        result = CliRunner().invoke(app, list(words))
        return result.exit_code, result.stdout, result.stderr

    assert invoke("run", "w.yaml")[0] == 0
    Path("edges.txt").write_text("0 1 5\n1 2 8\n")
    code, _, told = invoke("run", "w.yaml")
    assert code == 2
    assert "1 older version of the graph: 0.0 MB" in told
    assert "`runs/w` holds another run: it differs in graph" in told
    assert invoke("verify", "runs/w")[0] == 0  # on the version with which it was solved
    assert json.loads(invoke("inspect", "graphs/w", "--json")[1])["older_versions"] == 1
    assert invoke("run", "w.yaml", "--overwrite")[0] == 0
    assert invoke("ingest", "w.yaml", "--remove-old-versions")[:2] == (0, "graphs/w\n")
    assert json.loads(invoke("inspect", "graphs/w", "--json")[1])["older_versions"] == 0
    assert invoke("solve", "w.yaml", "--overwrite")[0] == 0
    assert pq.read_table("runs/w/distances")["distance"].to_pylist()[:3] == [0, 5, 13]


@pytest.mark.medium
def test_folders_elsewhere_than_on_this_machine_are_as_safe(tmp_path):
    """Where files are objects: with other ways to list, to read a part and to remove many."""
    place = f"memory://{tmp_path.name}"
    workflow = made(tmp_path, f"{place}/run", graph={"store": f"{place}/graph"})
    folder, _ = run(workflow, Quiet())
    before = storage.list_files(folder.url)
    assert before[0] == "distances/batch-00000.parquet"
    storage.write_atomic(folder.path("notes.txt"), b"mine")
    storage.write_atomic(folder.path(before[0]), b"PAR1")
    run(workflow, Quiet())
    assert verify_run(folder.url, None, "sample", Quiet())["verify"]["refuted"] is None
    run(workflow, Quiet(), overwrite=True)
    assert storage.list_files(folder.url) == sorted([*before, "notes.txt"])
    storage.write_atomic(f"{place}/taken/notes.txt", b"mine")
    for taken in ({"output": {"path": f"{place}/taken"}}, {"graph": {"store": f"{place}/taken"}}):
        sections = {"graph": {"store": f"{place}/graph"}, "output": {"path": f"{place}/new"}} | taken
        with pytest.raises(InputError, match=r"is not empty and .* it has notes\.txt"):
            run(made(tmp_path, **sections), Quiet())
    assert storage.list_files(f"{place}/taken") == ["notes.txt"]


def test_a_run_that_another_process_has_finished_meanwhile_keeps_its_files(tmp_path, monkeypatch):
    # A process that was frozen finds that its batch has no run any more, and that there are no commits.
    run(made(tmp_path), Quiet())
    shutil.move(tmp_path / "run", tmp_path / "finished")
    expected, lock, froze = content(tmp_path / "finished"), threading.Lock(), []

    def solve(task):
        with lock:  # two threads may have a task each
            if not froze:
                froze.append(task)
                shutil.rmtree(tmp_path / "run")
                shutil.copytree(tmp_path / "finished", tmp_path / "run")
        raise InputError("the folder no longer holds the run of this batch")

    monkeypatch.setattr(dispatch, "solve_task", solve)
    with pytest.raises(InputError, match="no longer holds"):
        run(made(tmp_path), Quiet())
    assert content(tmp_path / "run") == expected
