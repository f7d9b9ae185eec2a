"""Runs in the wide layout: each batch has a file with a column for each of its sources. And older runs."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError, RefutedError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.contract import row_facts
from sssp_pipeline.pipeline.results.folder.run_files import OVERWRITE
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.layouts import wide
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.storage.file_sums import write_parquet, write_summed
from sssp_pipeline.workflow.models import Workflow

N_VERTICES = 1640
#: Vertices of each file of an earlier release.
PART = 600


def made(tmp_path: Path, name: str = "run", columns: int | None = 4, solve=None, **output) -> Workflow:
    layout = {"layout": "wide"} | ({} if columns is None else {"columns_per_file": columns})
    grid = "generated:grid?rows=40&cols=41&keep=0.7&seed=3"
    return Workflow.model_validate(
        {
            "graph": {"input": grid, "store": str(tmp_path / "graph")},
            "sources": {"random": {"count": 30, "seed": 1}},
            "solve": {"solver": "dijkstra"} | (solve or {}),
            "output": {"path": str(tmp_path / name)} | layout | output,
            "verify": "sample" if "targets" in output else "certificate",
        }
    )


def joined(folder: RunFolder) -> pa.Table:
    """Return the files of a run as one table, joined by position."""
    first, *others = (
        pq.read_table(folder.batch_path(batch)) for batch in range(folder.read_run()["batches"])
    )
    for table in others:
        assert table["vertex"] == first["vertex"]
        for name in table.column_names[1:]:
            first = first.append_column(name, table[name])
    return first


@pytest.fixture
def several_groups(monkeypatch):
    """Cut files into row groups of few vertices."""
    monkeypatch.setattr(wide, "GROUP_ROWS", 500)
    monkeypatch.setattr(row_facts, "SEGMENT", 250)


@pytest.fixture
def of_earlier_release(recorded_anew, reseal):
    """Give a function that turns a finished run into one of a release that merged batches."""

    def rewritten(folder: RunFolder) -> None:
        table, path = joined(folder), Path(folder.path("run.json"))
        old = list(Path(folder.path("distances")).iterdir())
        record = json.loads(path.read_text())
        names = [name for name in record["files"] if not name.startswith("distances/")]
        for number, first in enumerate(range(0, table.num_rows, PART)):
            name = f"distances/wide-{number:05d}.parquet"
            rows = table.slice(first, PART)
            write_summed(folder.path(name), lambda file: write_parquet(rows, file, row_group_size=250))  # noqa: B023
            names.append(name)
        for file in old:
            file.unlink()
        record["identity"]["writer"] = "tiles"
        record |= {"files": dict.fromkeys(names, 0), "crc32": dict.fromkeys(names, "0"), "footers": {}}
        reseal(path, record)
        recorded_anew(folder)

    return rewritten


@pytest.mark.medium
@pytest.mark.parametrize("unreached", [None, 999999])
def test_a_file_has_the_columns_of_its_batch_and_all_rows(tmp_path, several_groups, digests, unreached):
    folder, record = run(made(tmp_path, unreached=unreached), Quiet())
    assert list(digests(tmp_path / "run")) == [f"batch-{number:05d}.parquet" for number in range(8)]
    assert (record["verify"]["checked_sources"], record["verify"]["refuted"]) == (30, None)
    run(made(tmp_path, "long", columns=None, layout="long", unreached=unreached), Quiet())
    long = pq.read_table(tmp_path / "long" / "distances")
    true = long["distance"].to_numpy(zero_copy_only=False).reshape(30, -1)
    sources = list(dict.fromkeys(long["source"].to_pylist()))
    for batch in range(8):
        file = pq.ParquetFile(folder.batch_path(batch))
        assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [500] * 3 + [140]
        assert file.metadata.row_group(0).sorting_columns[0].column_index == 0
        assert file.schema_arrow.names == ["vertex", *map(str, sources[4 * batch : 4 * batch + 4])]
    table = joined(folder)
    assert table["vertex"].to_pylist() == list(range(N_VERTICES))
    found = np.array([table[str(source)].to_numpy() for source in sources])
    np.testing.assert_array_equal(found, true)


@pytest.mark.medium
def test_readers_join_the_files(tmp_path):
    """As the guide does it."""
    duckdb = pytest.importorskip("duckdb")
    folder, _ = run(made(tmp_path, columns=10), Quiet())
    wanted, paths = joined(folder), [folder.batch_path(batch) for batch in range(3)]
    by_sql = "SELECT * FROM '{}' JOIN '{}' USING (vertex) JOIN '{}' USING (vertex) ORDER BY vertex"
    by_position = [pd.read_parquet(path, dtype_backend="pyarrow").set_index("vertex") for path in paths]
    tables = [pl.read_parquet(path) for path in paths]
    for found in (
        duckdb.sql(by_sql.format(*paths)).to_arrow_table(),
        pa.Table.from_pandas(pd.concat(by_position, axis=1).reset_index()).replace_schema_metadata(),
        pl.concat([tables[0], *(table.drop("vertex") for table in tables[1:])], how="horizontal").to_arrow(),
    ):
        assert found == wanted


@pytest.mark.medium
def test_targets_are_read_from_the_files(tmp_path, several_groups):
    folder, _ = run(made(tmp_path), Quiet())
    vertices = [int(v) for v in np.random.default_rng(0).permutation(N_VERTICES)]
    to, _ = run(made(tmp_path, "to", targets={"ids": vertices}), Quiet())
    assert joined(to) == joined(folder).take(vertices)
    assert verify_run(to.url, None, "sample", Quiet())["verify"]["refuted"] is None


@pytest.mark.medium
def test_columns_per_file_and_batch_say_the_same(tmp_path, digests, listener):
    heard = listener()
    run(made(tmp_path, columns=7), heard)
    assert heard.said["columns"] == ["5 files with up to 7 sources as columns: join them by `vertex`"]
    run(made(tmp_path, "batch", columns=None, solve={"batch": 7}), Quiet())
    assert digests(tmp_path / "batch") == digests(tmp_path / "run")
    assert len(digests(tmp_path / "run")) == 5
    heard = listener()
    run(made(tmp_path, "auto", columns=None), heard)
    assert len(digests(tmp_path / "auto")) == 1
    assert "columns" not in heard.said


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_workers(tmp_path, digests):
    run(made(tmp_path), Quiet())
    workers = made(tmp_path, "workers").model_dump() | {"cluster": {"workers": 1}}
    run(Workflow.model_validate(workers), Quiet())
    assert digests(tmp_path / "workers") == digests(tmp_path / "run")


@pytest.mark.medium
def test_a_wrong_distance_is_named_and_a_damaged_file_costs_its_batch(
    tmp_path, digests, recorded_anew, listener
):
    folder, _ = run(made(tmp_path), Quiet())
    whole, path = digests(tmp_path / "run"), Path(folder.batch_path(1))
    table, content = pq.read_table(path), path.read_bytes()
    name, values = table.column_names[3], table[3].to_pylist()
    row = next(i for i, value in enumerate(values) if value)
    values[row] += 1
    pq.write_table(table.set_column(3, name, pa.array(values, table[3].type)), path)
    recorded_anew(folder)
    with pytest.raises(RefutedError) as caught:
        verify_run(folder.url, None, "certificate", Quiet())
    assert f"source `{name}`, vertex `{row}`: stored distance {values[row]}" in caught.value.message
    pq.write_table(table.slice(1), path)
    recorded_anew(folder)
    with pytest.raises(InputError, match="column vertex does not list the expected vertices in order"):
        verify_run(folder.url, None, "certificate", Quiet())
    path.write_bytes(content)
    recorded_anew(folder)
    path.unlink()
    with pytest.raises(InputError, match=r"batch-00001\.parquet` is gone"):
        verify_run(folder.url, None, "sample", Quiet())
    heard = listener()
    run(made(tmp_path), heard)
    assert f"`{path}` is gone: it is written again" in heard.lines
    assert digests(tmp_path / "run") == whole


def answers(url: str, folder: Path) -> dict[str, object]:
    """Return what a user reads of a run, whatever its files."""
    opened = sp.open_run(url)
    sources = opened.sources.to_pylist()
    for name in ("matrix.npy", "pairs.parquet"):
        (folder / name).unlink(missing_ok=True)
        opened.export(str(folder / name), **({"unreached": 2**32 - 1} if name.endswith("npy") else {}))
    return {
        "distances": opened.distances(),
        "some": opened.distances([sources[9], sources[2]], [1639, 0, 700]),
        "matrix": np.load(folder / "matrix.npy").tobytes(),
        "pairs": pq.read_table(folder / "pairs.parquet"),
        "path": opened.path(sources[3], 1000),
        "verdict": verify_run(url, None, "certificate", Quiet())["verify"]["refuted"],
        "sample": verify_run(url, None, "sample", Quiet())["verify"]["checked_sources"],
        "histogram": "no histogram" in Path(url, "report.html").read_text(),
    }


@pytest.mark.medium
def test_a_run_of_an_earlier_release_is_read_by_everything(tmp_path, of_earlier_release):
    folder, _ = run(made(tmp_path), Quiet())
    wanted = answers(folder.url, tmp_path)
    assert (wanted["verdict"], wanted["sample"], wanted["histogram"]) == (None, 8, False)
    of_earlier_release(folder)
    files = [f"distances/wide-{number:05d}.parquet" for number in range(3)]
    assert sorted(folder.read_run()["files"]) == [*files, "metrics.parquet"]
    assert answers(folder.url, tmp_path) == wanted


@pytest.mark.medium
def test_targets_of_a_run_of_an_earlier_release_are_verified(tmp_path, of_earlier_release):
    vertices = [int(v) for v in np.random.default_rng(0).permutation(N_VERTICES)]
    folder, _ = run(made(tmp_path, targets={"ids": vertices}), Quiet())
    of_earlier_release(folder)
    assert verify_run(folder.url, None, "sample", Quiet())["verify"]["refuted"] is None


@pytest.mark.medium
def test_a_finished_run_of_an_earlier_release_stays_and_is_not_repaired(
    tmp_path, of_earlier_release, listener, digests
):
    folder, _ = run(made(tmp_path, columns=None, solve={"batch": 4}), Quiet())
    of_earlier_release(folder)
    before, heard = digests(tmp_path / "run"), listener()
    again = made(tmp_path, columns=None)  # its batches are others
    run(again, heard)
    assert "nothing_to_do" in heard.said
    assert digests(tmp_path / "run") == before
    path = tmp_path / "run" / "distances" / "wide-00001.parquet"
    path.unlink()
    with pytest.raises(InputError, match=r"wide-00001\.parquet` is gone") as caught:
        run(again, Quiet())
    assert caught.value.hint == OVERWRITE
    run(again, Quiet(), overwrite=True)
    assert list(digests(tmp_path / "run")) == ["batch-00000.parquet"]


def test_an_unfinished_run_of_an_earlier_release_is_refused_and_replaced(tmp_path, monkeypatch, digests):
    class Stop(BaseException):
        pass

    def stop(*_):
        raise Stop

    with monkeypatch.context() as patched, pytest.raises(Stop):
        patched.setattr(wide.WideLayout, "writer", "tiles")
        patched.setattr(RunFolder, "joined_metrics", stop)
        run(made(tmp_path), Quiet())
    for name in ("_run/batch-00000.tiles", "_run/merged.json", "distances/wide-00000.parquet"):
        (tmp_path / "run" / name).write_bytes(b"old")
    for columns in (4, 7):
        with pytest.raises(InputError, match="holds an unfinished run of another release"):
            run(made(tmp_path, columns=columns), Quiet())
    run(made(tmp_path), Quiet(), overwrite=True)
    assert list(digests(tmp_path / "run")) == [f"batch-{number:05d}.parquet" for number in range(8)]
    assert not (tmp_path / "run" / "_run").exists()
