"""Runs in both directions, for the tests of what a run backward stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.results.outputs import turned_output
from sssp_pipeline.pipeline.run import conductor
from sssp_pipeline.workflow.yaml_file import load_workflow

N = 60
#: Vertex N has no path from or to any other. The reversed edges are others, and some weights are equal.
EDGES = [(v, w, 4 + (7 * v + w) % 9) for v in range(N) for w in (v + 1, (3 * v) % N) if w < N and v != w]


def write_edges(scale=1, name=lambda v: v):
    lines = [f"{name(v)},{name(w)},{round(weight * scale, 14)}" for v, w, weight in [*EDGES, (N, N, 1)]]
    Path("edges.csv").write_text("\n".join(["source,target,weight", *lines, ""]))


def run_of(*overrides, progress=None, **options):
    """Run `w.yaml` and return the content of its run.json."""
    return conductor.run(load_workflow("w.yaml", list(overrides)), progress or Quiet(), **options)[1]


def distances_of(path):
    """Return the name and the bytes of each file of distances."""
    return {file.name: file.read_bytes() for file in sorted(Path(path, "distances").iterdir())}


def checked_both(*overrides):
    """Run forward and backward, compare the distances, and return both records."""
    found = []
    for direction in ("forward", "backward"):
        more = (f"solve.direction={direction}", f"output.path={direction}", *overrides)
        found.append(run_of(*more, overwrite=True))
        assert found[-1]["direction"] == direction
        assert found[-1]["verify"]["refuted"] is None
        assert found[-1]["verify"]["checked_sources"] > 0
    assert len(distances_of("forward")) > 1
    assert distances_of("forward") == distances_of("backward")
    return found


def stopped_after(monkeypatch, n, name, kind=turned_output.TurnedDistances):
    """Run into `backward` until the `n`th call of the method `name` of `kind` fails."""
    inner, done = getattr(kind, name), []

    def failing(self, *arguments, **options):
        done.append(arguments)
        if len(done) == n:
            raise RuntimeError("the power failed")
        return inner(self, *arguments, **options)

    with monkeypatch.context() as patch, pytest.raises((SsspError, RuntimeError), match="the power failed"):
        patch.setattr(turned_output, "READ_BYTES", 400)
        patch.setattr(kind, name, failing)
        run_of("solve.batch=2", "solve.retries=0", "output.path=backward")
