"""Records a run of a benchmark as one JSON line, with its date, commit, machine and versions."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from typing import Any

from sssp_pipeline.bench.lines import circumstances

RESULTS = Path(__file__).parent / "results"


def processor_s() -> float:
    """Return the processor time of this process and of its ended child processes, such as METIS."""
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def record(name: str, **measured: Any) -> None:
    """Print one run of the benchmark `name` as a JSON line, and append it to `results/<name>.jsonl`."""
    run = circumstances(RESULTS).model_dump() | measured
    line = json.dumps(run, allow_nan=False)
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{name}.jsonl").open("a") as file:
        file.write(line + "\n")
    print(line, flush=True)
