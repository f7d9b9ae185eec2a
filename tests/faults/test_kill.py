"""Killed at random moments, started again: the same bytes, nothing solved twice, nothing left over."""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

pytestmark = pytest.mark.slow

KILLS = 8
RUN = [sys.executable, "-m", "sssp_pipeline.cli", "run"]


def workflow(folder: Path) -> str:
    data = {
        "graph": {"input": "generated:road?vertices=30000&seed=5", "store": str(folder / "graph")},
        "sources": {"random": {"count": 240, "seed": 2}},
        # `auto` may change its mind by how long a call takes, and the metrics name the solver.
        "solve": {"batch": 2, "solver": "delta-stepping"},
        "output": {"path": str(folder / "run")},
    }
    folder.mkdir()
    (folder / "w.yaml").write_text(yaml.safe_dump(data))
    return str(folder / "w.yaml")


def names(folder: Path) -> list[str]:
    """Return all files below `folder`, part files without the number of their ingest."""
    found = (str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    return sorted(n if "/part-" not in n else n[: n.index("/part-")] for n in found)


def marks(folder: Path) -> dict[str, tuple[int, int]]:
    """Return what would change if a committed batch were written again."""
    run = folder / "run"
    found = list((run / "distances").glob("batch-*"))
    if not (run / "run.json").exists():
        found = [p for p in found if (run / "_run" / p.with_suffix(".commit").name).exists()]
    return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in found}


def told(folder: Path) -> pa.Table:
    """Return the metrics that do not depend on when and where a source was solved."""
    columns = ["source", "solver", "vertices_processed", "edges_relaxed", "reached", "max_distance", "batch"]
    return pq.read_table(folder / "run" / "metrics.parquet").select(columns)


@pytest.mark.timeout(600)
def test_killed_at_random_moments(tmp_path, digests):
    calm, wild = tmp_path / "calm", tmp_path / "wild"
    subprocess.run([*RUN, workflow(calm)], check=True, capture_output=True)
    began = time.monotonic()
    shutil.rmtree(calm / "run")
    subprocess.run([*RUN, str(calm / "w.yaml")], check=True, capture_output=True)
    whole_s = time.monotonic() - began

    seed = int(os.environ.get("SSSP_KILL_SEED", "0"))
    moments = random.Random(seed)
    file = workflow(wild)
    kills = 0
    committed: dict[str, tuple[int, int]] = {}

    def check_finished() -> None:
        assert committed.items() <= marks(wild).items(), f"seed {seed}: a batch was solved twice"
        assert digests(wild / "run") == digests(calm / "run")
        assert names(wild) == names(calm)
        assert told(wild).equals(told(calm))

    while kills < KILLS:
        # Threads of the run's own process, or a worker process, whichever: the run folder is the same.
        command = [*RUN, file, "--set", f"cluster.workers={moments.choice(['auto', '1'])}"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0, whole_s))
        children = psutil.Process(process.pid).children(recursive=True)
        finished = process.poll() is not None
        kills += not finished
        process.kill()
        process.wait()
        # The workers of a killed run notice and end by themselves; none may write into the next run.
        _, alive = psutil.wait_procs(children, timeout=60)
        assert not alive, f"seed {seed}: workers outlive their run: {alive}"
        assert committed.items() <= marks(wild).items(), f"seed {seed}: a batch was solved twice"
        committed = marks(wild)
        if finished:
            check_finished()
            committed = {}
            shutil.rmtree(wild / "run")
            shutil.rmtree(wild / "graph")
    subprocess.run([*RUN, file], check=True, capture_output=True)
    check_finished()
