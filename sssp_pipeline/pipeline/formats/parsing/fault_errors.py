"""FaultAt errors: the message and the hint for each fault that a scan of lines can stop at."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from sssp_pipeline.base.error_text import Text, key
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.parsing import faults
from sssp_pipeline.pipeline.formats.parsing.line_blocks import TextBlock
from sssp_pipeline.pipeline.formats.parsing.tokenizer import LineSyntax
from sssp_pipeline.storage import files as storage


@dataclass(frozen=True, eq=False)
class FaultAt:
    """Why the scan of a block stopped: a fault code of `faults`, and the position of the token."""

    code: int
    position: int


def line_place(url: str, line: int) -> str:
    """Return the words that name a line of a file."""
    return f"`{storage.redacted(url)}` line {line}"


def fault_error(fault: FaultAt, block: TextBlock, n_lines: int, syntax: LineSyntax) -> InputError:
    """Return the error for a fault in a block that `n_lines` lines of its file precede."""
    before = block.data[: fault.position].tobytes()
    line = n_lines + before.count(b"\n") + 1
    place = line_place(block.file.url, line)
    token = token_at(block.data, fault.position).decode("utf-8", "replace")
    excerpt = token if len(token) <= 60 else token[:57] + "..."
    match fault.code:
        case faults.FEW_COLUMNS | faults.MANY_COLUMNS | faults.NO_COORDINATE_ROW:
            n_columns = len(block.data[fault.position :].tobytes().partition(b"\n")[0].split())
            n_columns -= bool(syntax.letter)
            problem = f" has {n_columns} column{'' if n_columns == 1 else 's'}, wanted {syntax.n_columns}"
            hint = _columns_hint(fault.code, syntax)
        case faults.BAD_ID:
            problem, hint = f": `{excerpt}` is not a vertex id", _id_hint(syntax)
        case faults.NEGATIVE_ID:
            problem, hint = f": vertex id `{excerpt}` is negative", _id_hint(syntax)
        case faults.HUGE_ID:
            problem, hint = f": vertex id `{excerpt}` is above 2^63 - 1", _id_hint(syntax)
        case faults.ZERO_LED_ID:
            problem, hint = f": {_zero_led_problem(excerpt)}", _ZERO_LED_HINT
        case faults.ID_OUT_OF_RANGE:
            problem = f": vertex id `{excerpt}` is outside {syntax.min_id} to {syntax.max_id}"
            hint = "the file declares its number of vertices at its beginning: correct the id or that number"
        case faults.BAD_UTF8:
            return not_utf8_error(place, excerpt, token_at(block.data, fault.position).decode("latin-1"))
        case faults.BAD_COORDINATE:
            problem = f": `{excerpt}` is not a coordinate"
            hint = "coordinates are numbers of at most 15 digits"
        case faults.NO_WEIGHT:
            problem, hint = ": the last neighbour has no weight", "the header says that edges have weights"
        case faults.NO_VERTEX_WEIGHTS:
            problem, hint = " ends before the weights of its vertex do", "the header says how many there are"
        case faults.WRONG_LETTER:
            problem = f" begins with `{excerpt}`, wanted `{chr(syntax.letter)}`"
            hint = "the file may be damaged, or of another format: see `graph.format`"
        case _:
            # Formats that declare their number of vertices have fixed columns, and no rows are skipped.
            return weight_error(place, excerpt, fault.code, syntax.scale, of_table=syntax.min_id == 0)
    return InputError(place + problem, hint=hint)


def no_edges_error(url: str) -> InputError:
    """Return the error for a file without edges."""
    return InputError(
        f"`{storage.redacted(url)}` holds no edges", hint="check that this is the file you mean"
    )


def control_error(place: str, byte: int) -> InputError:
    """Return the error for a control character."""
    return InputError(
        f"{place} holds the control character 0x{byte:02x}",
        hint="the file may be damaged, or no text: fetch it again, or see `graph.format`",
    )


def carriage_return_error(place: str) -> InputError:
    """Return the error for a carriage return without a line feed: readers disagree whether it ends a row."""
    return InputError(
        f"{place} has a carriage return without a line feed, as old Macs end lines",
        hint="end lines with line feeds: `tr '\\r' '\\n'` converts them",
    )


def mark_error(place: str) -> InputError:
    """Return the error for a byte order mark at the beginning of a line that is not the first."""
    return InputError(
        f"{place} begins with a byte order mark, which belongs at the beginning of a file",
        hint="if files were joined, name them one by one; else remove the mark: `sed -i 's/^\\xef\\xbb\\xbf//' FILE`",
    )


def id_fault(text: str, keeps_zeros: bool) -> tuple[str, str] | None:
    """Return what is wrong with the integer id `text`, and the hint; None if it is from 0 to 2^63 - 1.

    `keeps_zeros` says whether `007` is the integer 7; otherwise it is wrong.
    """
    if not keeps_zeros and re.fullmatch(r"\+[0-9]+|0[0-9]+", text):
        return _zero_led_problem(text[:60]), _ZERO_LED_HINT
    if not re.fullmatch("[0-9]+", text):
        hint = "ids are whole numbers from 0; for names set `graph.ids: string`"
        return f"`{text[:60]}` is not a vertex id", hint
    digits = text.lstrip("0") or "0"
    if len(digits) > 19 or int(digits) > 2**63 - 1:
        return f"vertex id `{text[:60]}` is above 2^63 - 1", "set `graph.ids: string`"
    return None


def _zero_led_problem(excerpt: str) -> str:
    """Return the problem with an id that has a plus sign or a leading zero."""
    sign = "a plus sign" if excerpt.startswith("+") else "a leading zero"
    return (
        f"vertex id `{excerpt}` has {sign}, which an integer would lose, and the ids before it are integers"
    )


_ZERO_LED_HINT = (
    "set `graph.ids: string` to keep ids as they are written, or `integer` to read them as numbers"
)


def not_utf8_error(place: str, excerpt: str, as_latin_1: str) -> InputError:
    """Return the error for a word that is not UTF-8; `as_latin_1` is the word read as Latin-1."""
    return InputError(
        f"{place}: `{excerpt}` is not UTF-8",
        hint=f"set `graph.encoding: latin-1` if `{as_latin_1[:60]}` is meant; else save the file as UTF-8",
    )


#: A number with a mark between thousands, and perhaps decimals after the other mark.
_WITH_THOUSANDS = (
    r"[-+]?[0-9]{1,3}(?:(?:,[0-9]{3}){2,}|(?:\.[0-9]{3}){2,}|(?:,[0-9]{3})+\.[0-9]+|(?:\.[0-9]{3})+,[0-9]+)"
)


def weight_error(place: str, excerpt: str, code: int, scale: int = 0, *, of_table: bool = True) -> InputError:
    """Return the error for a weight with the fault `code` of `faults`; `of_table` means text and CSV."""
    match code:
        case faults.NOT_FINITE:
            problem = f"weight `{excerpt}` is not finite"
            hint = "leave such edges out" + ", or set `graph.unreadable: skip`" * of_table
        case faults.UNDERFLOW:
            problem = f"weight `{excerpt}` is above zero, but float64 would make it zero"
            hint = "scale the weights up"
        case faults.INEXACT_INTEGER:
            problem = f"weight `{excerpt}` is an integer that no type holds exactly beside the other weights"
            hint = Text(
                "set ", key("graph.weights.dtype", "float64"), " to round it, or scale the weights down"
            )
        case faults.NOT_SCALED if scale == 1:
            problem = f"weight `{excerpt}` is not an integer"
            hint = "set `graph.weights.dtype: auto` to compute with decimals"
        case faults.NOT_SCALED:
            problem = f"weight `{excerpt}` times {scale} is not an integer"
            hint = "raise `graph.weights.scale`, or remove it to compute with decimals"
        case _:
            problem = f"`{excerpt}` is not a weight"
            hint = "weights are numbers such as 12, 0.5 or 3e-2"
            if of_table and re.fullmatch(r"[-+]?[0-9]+,[0-9]+", excerpt):
                hint = f"set `graph.decimal: comma` to read it as {excerpt.replace(',', '.')}"
                if re.fullmatch(r"[-+]?[1-9][0-9]{0,2},[0-9]{3}", excerpt):
                    hint = (
                        f"if it is {excerpt.replace(',', '')}, remove commas between thousands; else {hint}"
                    )
            elif re.fullmatch(_WITH_THOUSANDS, excerpt):
                hint = "remove what separates thousands"
            elif of_table:
                hint += "; `graph.weights.column` names another column, or `none`"
                hint += "; `graph.unreadable: skip` leaves such rows out"
    return InputError(f"{place}: {problem}", hint=hint)


def _columns_hint(code: int, syntax: LineSyntax) -> str:
    if code == faults.NO_COORDINATE_ROW:
        return "every line holds a vertex id, x and y"
    named = {2: "source and target", 3: "source, target and weight"}.get(syntax.n_columns)
    hint = f"every line holds {named}" if named else "every line has as many columns as the first"
    return hint + "; `graph.unreadable: skip` leaves others out" * (syntax.min_id == 0)


def _id_hint(syntax: LineSyntax) -> str:
    if syntax.min_id > 0:
        return f"ids are whole numbers from {syntax.min_id}"
    return "ids are whole numbers from 0; for names set `graph.ids: string`"


def token_at(data: np.ndarray, position: int) -> bytes:
    """Return the token that begins at `position`; empty at the end of a line."""
    line = data[position : position + 65536].tobytes().partition(b"\n")[0].split()
    return line[0] if line else b""


def line_of_fault(block: TextBlock, fault: FaultAt) -> str:
    """Return the beginning of the line with the fault, as text."""
    data = block.data
    start = data[: fault.position].tobytes().rfind(b"\n") + 1
    line = data[start : start + 500].tobytes().partition(b"\n")[0]
    return line.decode("utf-8", "replace").rstrip("\r")
