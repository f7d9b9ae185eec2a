"""A run in the wide layout with several batches: whatever reads its folder sees one table, however it was cut."""

import itertools
import json
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from sssp_pipeline.base.errors import InputError, RefutedError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.contract import row_facts
from sssp_pipeline.pipeline.results.layouts import wide
from sssp_pipeline.pipeline.results.run_folder import RunFolder
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.models import Workflow

TILE = wide.TILE


def made(tmp_path: Path, name: str = "run", batch: int = 4, **output) -> Workflow:
    grid = "generated:grid?rows=40&cols=41&keep=0.7&seed=3"
    return Workflow.model_validate(
        {
            "graph": {"input": grid, "store": str(tmp_path / "graph")},
            "sources": {"random": {"count": 30, "seed": 1}},
            "solve": {"batch": batch, "solver": "dijkstra"},
            "output": {"path": str(tmp_path / name), "layout": "wide"} | output,
            "verify": "sample" if "targets" in output else "certificate",
        }
    )


@pytest.fixture
def several(monkeypatch):
    """Cut the files after so few rows that there are several of them, and row groups that do not fit them."""
    monkeypatch.setattr(wide, "LEAST_ROWS", 600)
    monkeypatch.setattr(wide, "PART_BYTES", 1)
    monkeypatch.setattr(row_facts, "SEGMENT", 250)
    monkeypatch.setattr(wide, "TILE", 200)


@pytest.mark.medium
@pytest.mark.parametrize("unreached", [None, 999999])
def test_the_folder_is_one_table_with_a_column_a_source(tmp_path, several, digests, unreached):
    folder, record = run(made(tmp_path, unreached=unreached), Quiet())
    assert list(digests(tmp_path / "run")) == [f"wide-{number:05d}.parquet" for number in range(3)]
    assert (record["verify"]["checked_sources"], record["verify"]["refuted"]) == (30, None)
    run(made(tmp_path, "long", layout="long", unreached=unreached), Quiet())
    long = pq.read_table(tmp_path / "long" / "distances")
    true = long["distance"].to_numpy(zero_copy_only=False).reshape(30, -1)
    sources = list(dict.fromkeys(long["source"].to_pylist()))
    for read in (
        lambda: ds.dataset(tmp_path / "run" / "distances").to_table(),
        lambda: pq.read_table(tmp_path / "run" / "distances"),
        lambda: pa.concat_tables(map(pq.read_table, map(folder.path, folder.wide_names()))),
    ):
        table = read()
        assert table.column_names == ["vertex", *map(str, sources)]
        assert table["vertex"].to_pylist() == list(range(1640))
        found = np.array([table[str(source)].to_numpy() for source in sources])
        np.testing.assert_array_equal(found, true)


@pytest.mark.medium
def test_targets_are_read_from_the_files(tmp_path, several):
    folder, _ = run(made(tmp_path), Quiet())
    vertices = [int(v) for v in np.random.default_rng(0).permutation(1640)]
    to, _ = run(made(tmp_path, "to", targets={"ids": vertices}), Quiet())
    assert len(to.wide_names()) == 3
    table, everything = (pq.read_table(f.path("distances")) for f in (to, folder))
    assert table == everything.take(vertices)
    assert verify_run(to.url, None, "sample", Quiet())["verify"]["refuted"] is None


@pytest.mark.medium
def test_the_bytes_do_not_depend_on_the_batches(tmp_path, several, digests):
    run(made(tmp_path), Quiet())
    for name, batch in (("sevens", 7), ("elevens", 11), ("one", 30)):
        run(made(tmp_path, name, batch), Quiet())
        assert digests(tmp_path / name) == digests(tmp_path / "run")


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_workers(tmp_path, several, digests, monkeypatch):
    run(made(tmp_path), Quiet())
    monkeypatch.setattr(wide, "TILE", TILE)  # as on the worker
    workers = made(tmp_path, "workers").model_dump() | {"cluster": {"workers": 1}}
    run(Workflow.model_validate(workers), Quiet())
    assert digests(tmp_path / "workers") == digests(tmp_path / "run")


class Killed(BaseException):
    """Ends the process between two steps."""


@pytest.mark.medium
def test_killed_at_every_step_of_the_merge_it_goes_on(tmp_path, several, digests, monkeypatch):
    run(made(tmp_path, "calm"), Quiet())
    calm = digests(tmp_path / "calm")
    real = {name: getattr(files, name) for name in ("open_atomic", "write_atomic", "remove", "remove_files")}
    merge = RunFolder.merge

    def dying(action, left):
        def step(*args, **kwargs):
            if next(left) == 0:
                raise Killed
            return action(*args, **kwargs)

        return step

    for steps in itertools.count():
        left, name, is_over = itertools.count(steps, -1), f"run-{steps}", False

        def dying_merge(*args):
            with monkeypatch.context() as patched:
                for name, action in real.items():
                    patched.setattr(files, name, dying(action, left))  # noqa: B023
                merge(*args)

        with monkeypatch.context() as patched, suppress(Killed):
            patched.setattr(RunFolder, "merge", dying_merge)
            run(made(tmp_path, name), Quiet())
            is_over = True
        if not is_over:
            assert RunFolder(str(tmp_path / name)).committed() == set(range(8))
            _, record = run(made(tmp_path, name), Quiet())
            assert record["verify"]["checked_sources"] == 30
        assert digests(tmp_path / name) == calm
        assert not (tmp_path / name / "_run").exists()
        if is_over:
            break
    assert steps >= 6


def test_a_batch_that_is_written_once_more_after_the_merge_is_removed(
    tmp_path, several, digests, monkeypatch
):
    def late(folder, *args):
        shutil.copy(folder.path("_run/batch-00003.tiles"), tmp_path / "late")
        merge(folder, *args)
        shutil.copy(tmp_path / "late", folder.path("_run/batch-00003.tiles"))

    merge = RunFolder.merge
    monkeypatch.setattr(RunFolder, "merge", late)
    run(made(tmp_path), Quiet())
    assert [name[:4] for name in digests(tmp_path / "run")] == ["wide"] * 3
    assert not (tmp_path / "run" / "_run").exists()


@pytest.mark.medium
def test_a_wrong_distance_is_named_and_a_damaged_file_refused(tmp_path, several, recorded_anew):
    folder, _ = run(made(tmp_path), Quiet())
    path = Path(folder.path(folder.wide_names()[1]))
    table = pq.read_table(path)
    name, values = table.column_names[9], table[9].to_pylist()
    row = next(i for i, value in enumerate(values) if value)
    values[row] += 1
    pq.write_table(table.set_column(9, name, pa.array(values, table[9].type)), path)
    recorded_anew(folder)
    with pytest.raises(RefutedError) as caught:
        verify_run(folder.url, None, "certificate", Quiet())
    assert f"source `{name}`, vertex `{600 + row}`: stored distance {values[row]}" in caught.value.message
    pq.write_table(table.slice(1), path)
    recorded_anew(folder)
    with pytest.raises(InputError, match="column vertex does not list the expected vertices in order"):
        verify_run(folder.url, None, "sample", Quiet())
    path.unlink()
    with pytest.raises(InputError, match=r"wide-00001\.parquet` is gone"):
        verify_run(folder.url, None, "sample", Quiet())
    recorded = json.loads((tmp_path / "run" / "run.json").read_text())["files"]
    assert list(recorded) == [
        *(f"distances/wide-{number:05d}.parquet" for number in range(3)),
        "metrics.parquet",
    ]
