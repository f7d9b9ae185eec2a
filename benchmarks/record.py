"""What every benchmark shares: one JSON line per run, with all that its numbers depend on."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sssp_pipeline.pipeline.hardware import hardware, versions

RESULTS = Path(__file__).parent / "results"


def record(name: str, **measured: Any) -> None:
    """Print one run of the benchmark `name` as a JSON line, and append it to `results/<name>.jsonl`."""
    run = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **_revision(),
        "machine": hardware(),
        "versions": versions(),
        **measured,
    }
    line = json.dumps(run, allow_nan=False)
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{name}.jsonl").open("a") as file:
        file.write(line + "\n")
    print(line, flush=True)


def _revision() -> dict[str, Any]:
    """Return the commit of this checkout, and whether files differ from it; both None outside of one.

    A copy without its history says in `SSSP_BENCH_COMMIT` which commit it is.
    """
    if named := os.environ.get("SSSP_BENCH_COMMIT"):
        return {"commit": named.removesuffix("+"), "dirty": named.endswith("+")}
    commit = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain", "--", ":/", ":(exclude,top)benchmarks/results")
    return {"commit": commit, "dirty": None if status is None else status != ""}


def _git(*arguments: str) -> str | None:
    folder = str(Path(__file__).parent)
    answer = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else None
