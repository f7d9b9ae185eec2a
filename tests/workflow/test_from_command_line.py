"""What the options of a run without a workflow file mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from sssp_pipeline.workflow.from_command_line import workflow_from_options

#: Keys of `sources` that say nothing of which vertices are meant.
OTHERS = {"order", "unknown", "repeated"}


@pytest.fixture(autouse=True)
def _depots(tmp_path, monkeypatch):
    """Make a folder with a file of ids the current one."""
    monkeypatch.chdir(tmp_path)
    Path("depots.txt").write_text("3\n5\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["17"], {"ids": ("17",)}),
        (["17", "18"], {"ids": ("17", "18")}),
        (["id:all"], {"ids": ("all",)}),
        (["id:file:x"], {"ids": ("file:x",)}),
        (["all"], {"all": True}),
        (["random:64"], {"random": {"count": 64, "seed": 0, "min_reach": 1}}),
        (["top-degree:10"], {"top_degree": 10}),
        (["depots.txt"], {"file": "depots.txt"}),
        (["file:nowhere"], {"file": "nowhere"}),
        (["./depots.txt"], {"file": "./depots.txt"}),
        (["https://example.org/ids"], {"file": "https://example.org/ids"}),
        (["file:///tmp/ids"], {"file": "file:///tmp/ids"}),
        (["a folder"], {"ids": ("a folder",)}),
        (["random"], {"ids": ("random",)}),
    ],
)
def test_what_the_values_of_from_and_to_mean(words, expected):
    Path("a folder").mkdir()
    made = workflow_from_options(["edges.txt"], words, output="r")
    assert made.sources.model_dump(exclude_none=True, exclude=OTHERS) == expected
    if "all" not in expected:
        assert workflow_from_options(["e"], ["1"], words, "r").output.targets.model_dump(
            exclude_none=True, exclude=OTHERS
        ) == expected  # fmt: skip


def test_all_targets_are_no_targets():
    assert workflow_from_options(["e"], ["1"], ["all"], "r").output.targets is None
