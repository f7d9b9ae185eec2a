"""What a terminal shows of a text with control sequences."""

from __future__ import annotations

import re

_PARTS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+")


def screen(text: str) -> list[str]:
    """Return the lines that a terminal shows in the end, without colours; it knows the sequences of a moving line."""
    lines, row, column = [""], 0, 0
    for part in _PARTS.findall(text.replace("\r\n", "\n\r")):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\r":
            column = 0
        elif part in ("\x1b[2K", "\x1b[K"):
            lines[row] = "" if part == "\x1b[2K" else lines[row][:column]
        elif part[0] == "\x1b":
            row -= int(part[2:-1] or 1) if part[-1] == "A" else 0
        else:
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines]
