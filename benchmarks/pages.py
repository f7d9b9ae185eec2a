"""What the pages rendered from recorded lines share: numbers, and what the lines were measured on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def measured_on(lines: Iterable[dict[str, Any]]) -> str:
    """Return the sentences that say on which GPUs and at which commits `lines` were measured."""
    lines = list(lines)
    gpus = sorted({line["machine"]["gpu"] for line in lines})
    commits = sorted({line["commit"][:7] + "+" * line["dirty"] for line in lines})
    return f"GPU and driver: {'; '.join(gpus)}. Commit: {', '.join(commits)}."


def ms_text(ms: float) -> str:
    return f"{ms:.3g}"
