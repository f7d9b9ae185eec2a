"""What the pages share: the stored lines, and texts about them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from record import RESULTS


def stored_lines(name: str) -> list[dict[str, Any]]:
    """Return the lines of `results/<name>.jsonl`, the oldest first."""
    return [json.loads(text) for text in (RESULTS / f"{name}.jsonl").read_text().splitlines()]


def filled(template: str, values: dict[str, Any]) -> str:
    """Return `templates/<template>.md` with `values` in place of its `{names}`."""
    return (
        (Path(__file__).parent / "templates" / f"{template}.md").read_text(encoding="utf-8").format(**values)
    )


def measured_on(lines: Iterable[dict[str, Any]]) -> str:
    """Return the sentences that name the GPUs and the commits of `lines`."""
    lines = list(lines)
    gpus = sorted({line["machine"]["gpu"] for line in lines})
    commits = sorted({line["commit"][:7] + "+" * line["dirty"] for line in lines})
    return f"GPU and driver: {'; '.join(gpus)}. Commit: {', '.join(commits)}."


def ms_text(ms: float) -> str:
    return f"{ms:.3g}"
