"""The modules beside the tests can be imported by name, as the programs among them do."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def run_interrupted(monkeypatch):
    """Give a function that runs a workflow and fails when all batches are committed."""
    from sssp_pipeline.base.progress import Quiet
    from sssp_pipeline.pipeline.run import conductor

    def failing(*_, **__):
        raise RuntimeError("the power failed")

    def run_until_then(workflow):
        with monkeypatch.context() as patch, pytest.raises(RuntimeError):
            patch.setattr(conductor, "finish_run", failing)
            conductor.run(workflow, Quiet())

    return run_until_then
