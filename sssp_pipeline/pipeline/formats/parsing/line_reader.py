"""Edges out of files of lines: blocks scanned on several threads, faults turned into messages with their line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from sssp_pipeline.errors import InputError
from sssp_pipeline.lazy import LazyModule
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, SkippedRows
from sssp_pipeline.pipeline.formats.parsing import numbers_in_text as faults
from sssp_pipeline.pipeline.formats.parsing import tokenizer
from sssp_pipeline.pipeline.formats.parsing.byte_streams import (
    NEWLINE,
    LineFile,
    TextBlock,
    read_blocks,
)
from sssp_pipeline.pipeline.formats.parsing.ordered import map_in_order
from sssp_pipeline.pipeline.formats.parsing.tokenizer import (
    FLOAT,
    INTEGER,
    UNSIGNED,
    LineSyntax,
)
from sssp_pipeline.pipeline.storage import files as storage

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = LazyModule("pyarrow.compute")

MAX_ID = 2**63 - 1

_WEIGHT_DTYPES = {INTEGER: np.int64, UNSIGNED: np.uint64, FLOAT: np.float64}


@dataclass(frozen=True, eq=False)
class Fault:
    """Why a block could not be read further: a code of `numbers_in_text`, and the position of the token."""

    code: int
    position: int


class Scanned(Protocol):
    """What scanning a block gives: its number of lines, the fault that stopped the scan, and those it went over."""

    @property
    def n_lines(self) -> int: ...

    @property
    def fault(self) -> Fault | None: ...

    @property
    def skipped(self) -> Sequence[Fault]: ...


AnyScanned = TypeVar("AnyScanned", bound=Scanned)


@dataclass(frozen=True, eq=False)
class ScannedEdges:
    """The edges of a block."""

    chunk: EdgeChunk
    n_lines: int
    fault: Fault | None
    skipped: list[Fault] = field(default_factory=list)


def line_place(url: str, line: int) -> str:
    """Return the words that name a line of a file."""
    return f"`{storage.redacted(url)}` line {line}"


def read_edges(
    files: list[LineFile],
    syntax: LineSyntax,
    block_bytes: int,
    n_threads: int,
    skipped: SkippedRows | None = None,
) -> Iterator[tuple[LineFile, EdgeChunk]]:
    """Give the rows of `files` as chunks in order, each with its file; never an empty chunk.

    With `skipped`, rows that do not follow `syntax` are left out and noted there.

    Raises
    ------
    InputError
        A row does not follow `syntax`; the message names its line and what is wrong there.
    """
    scan = partial(scan_block, syntax=syntax, skips=skipped is not None)
    for file, scanned in scan_files(files, scan, syntax, block_bytes, n_threads, skipped):
        if len(scanned.chunk):
            yield file, scanned.chunk


def scan_files(
    files: list[LineFile],
    scan: Callable[[np.ndarray], AnyScanned],
    syntax: LineSyntax,
    block_bytes: int,
    n_threads: int,
    skipped: SkippedRows | None = None,
) -> Iterator[tuple[LineFile, AnyScanned]]:
    """Give what `scan` makes of each block of `files`, in order, with its file; note in `skipped` what it left out.

    Raises
    ------
    InputError
        The scan of a block met a fault; the blocks before it have been given.
    """

    def work(block: TextBlock) -> tuple[TextBlock, AnyScanned, int]:
        return block, scan(block.data), tokenizer.control_at(block.data)

    n_lines = 0
    for block, scanned, control in map_in_order(work, read_blocks(files, block_bytes), n_threads):
        if block.is_first:
            n_lines = block.file.n_lines
        if control >= 0 and (scanned.fault is None or control < scanned.fault.position):
            line = n_lines + block.data[:control].tobytes().count(b"\n") + 1
            raise control_error(line_place(block.file.url, line), block.data[control])
        if scanned.fault:
            raise fault_error(scanned.fault, block, n_lines, syntax)
        if skipped is not None and scanned.skipped:
            faults_ = ((fault_error(fault, block, n_lines, syntax), fault) for fault in scanned.skipped)
            skipped.add(
                len(scanned.skipped), (f"{error.message}: {_line_of(block, f)}" for error, f in faults_)
            )
        n_lines += scanned.n_lines
        yield block.file, scanned


def scan_block(data: np.ndarray, syntax: LineSyntax, skips: bool = False) -> ScannedEdges:
    """Return the edges in `data`, (n,) uint8 that ends with a line end, and the first fault among them.

    With `skips` a row with a fault is left out, and the scan goes on after it.
    """
    # The shortest row is `1 2` and its line end.
    most_rows = len(data) // 4 + 1
    src = np.empty(most_rows, np.int64)
    dst = np.empty(most_rows, np.int64)
    weights = np.empty(most_rows if syntax.weight_column >= 0 else 0, np.int64)
    doubtful = np.empty((2, 0), np.int64)
    mode = INTEGER
    skipped: list[Fault] = []
    begin = (0, 0, 0, 0)
    while True:
        n_rows, n_lines, code, position, n_doubtful = tokenizer.scan_edges(
            data, syntax, mode, begin, src, dst, weights, doubtful[0], doubtful[1]
        )
        if code == faults.NEED_FLOAT and skips:
            # What is no number must not decide how the other weights are read.
            code = _WORDS.get(faults.scan_decimal(data, position, syntax.point)[2], code)
        if code in (faults.NEED_UNSIGNED, faults.NEED_FLOAT):
            mode, begin = code, (0, 0, 0, 0)
            skipped.clear()
            if mode == FLOAT:
                doubtful = np.empty((2, most_rows), np.int64)
        elif code and skips:
            skipped.append(Fault(code, position))
            while n_doubtful and doubtful[0, n_doubtful - 1] >= n_rows:
                n_doubtful -= 1  # of the row that is left out
            begin = (int(faults.after_line(data, position)), n_rows, n_lines + 1, n_doubtful)
        else:
            break
    fault = Fault(code, position) if code else None
    values = weights.view(_WEIGHT_DTYPES[mode])
    found: list[Fault] = []
    if n_doubtful:
        rows, tokens = doubtful[:, :n_doubtful]
        values[rows], lost = _parse_decimals(data, tokens, syntax)
        found += [Fault(why, int(tokens[i]) >> 32) for i, why in lost]
    ends: list[np.ndarray | pa.Array] = [src[:n_rows], dst[:n_rows]]
    if syntax.ids_are_strings:
        for k, tokens in enumerate(ends):
            ends[k], not_utf8 = gather_strings(data, tokens)
            found += [Fault(faults.BAD_UTF8, int(tokens[row]) >> 32) for row in not_utf8]
    if skips:
        skipped += [fault for fault in found if fault.code not in _OF_VALUES]
    if skipped:
        return _scanned_without(data, syntax, n_lines, sorted(skipped, key=lambda found: found.position))
    # The scan may have stopped at another fault, but later: it went over these.
    first = min([*found, *([fault] if fault else [])], key=lambda found: found.position, default=None)
    given = values[:n_rows] if syntax.weight_column >= 0 else None
    return ScannedEdges(EdgeChunk(ends[0], ends[1], given), n_lines, first)


#: What a token that is no decimal is, by its status.
_WORDS = {faults.NO_NUMBER: faults.BAD_WEIGHT, faults.INFINITE_OR_NAN: faults.NOT_FINITE}
#: Faults of rows that can be read, but not kept as they are: they are never left out.
_OF_VALUES = (faults.UNDERFLOW, faults.INEXACT_INTEGER, faults.NOT_SCALED)


def _scanned_without(
    data: np.ndarray, syntax: LineSyntax, n_lines: int, skipped: list[Fault]
) -> ScannedEdges:
    """Return the edges in `data` without the lines of the faults `skipped`, which must not decide the weights' type."""
    ends = np.flatnonzero(data == NEWLINE) + 1
    starts = np.concatenate(([0], ends[:-1]))
    keep = np.ones(len(ends), bool)
    keep[np.searchsorted(ends, [fault.position for fault in skipped], side="right")] = False
    starts, ends = starts[keep], ends[keep]
    parts = [data[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    rest = scan_block(np.concatenate(parts) if parts else data[:0], syntax)
    fault = rest.fault
    if fault is not None:  # where it is in the whole of `data`
        moved = np.concatenate(([0], np.cumsum(ends - starts)[:-1]))
        line = int(np.searchsorted(moved, fault.position, side="right")) - 1
        fault = Fault(fault.code, int(starts[line]) + fault.position - int(moved[line]))
    return ScannedEdges(rest.chunk, n_lines, fault, skipped)


def gather_strings(data: np.ndarray, tokens: np.ndarray) -> tuple[pa.Array, list[int]]:
    """Return packed tokens of `data` as a large_string array, and the places of the tokens that are not UTF-8."""
    offsets, content = tokenizer.gather_tokens(data, tokens)
    array = pa.LargeStringArray.from_buffers(len(tokens), pa.py_buffer(offsets), pa.py_buffer(content))
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return array, [i for i, t in enumerate(tokens.tolist()) if not _is_utf8(_token_at(data, t >> 32))]
    return array, []


def _parse_decimals(
    data: np.ndarray, tokens: np.ndarray, syntax: LineSyntax
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return the packed tokens as float64 rounded correctly, and the place and the fault of each that cannot be."""
    texts, _ = gather_strings(data, tokens)
    texts = pc.utf8_ltrim(texts, "+")  # Arrow takes no plus sign
    if syntax.point != faults.POINT:
        texts = pc.replace_substring(texts, chr(syntax.point), ".")
    try:
        values = np.asarray(pc.cast(texts, pa.float64()))
    except pa.ArrowInvalid:
        values = np.array([float(text) for text in texts.to_pylist()])
    # Only these can have a fault; a look at each of all decimals takes ten times as long as reading them.
    if syntax.scale:
        suspects = np.arange(len(values))
    else:
        is_suspect = np.isinf(values) | (values == 0)
        if not syntax.rounds:
            is_suspect |= ~np.asarray(pc.match_substring_regex(texts, "[.eE]"))
        suspects = np.flatnonzero(is_suspect)
    found = []
    for i in suspects.tolist():
        why = float64_fault(texts[i].as_py(), float(values[i]), syntax.rounds, syntax.scale)
        if why is not None:
            found.append((i, why))
    return values, found


def float64_fault(text: str, value: float, rounds: bool, scale: int) -> int | None:
    """Return the fault of a weight that is written as `text` and is `value` in float64, None if there is none.

    Parameters
    ----------
    text
        A number with a point, if any, before its decimals.
    value
        The nearest float64.
    rounds
        Whether a float type is asked for.
    scale
        As in `LineSyntax`.
    """
    if math.isinf(value):
        return faults.NOT_FINITE
    digits = text.lower().partition("e")[0]
    if value == 0:
        return faults.UNDERFLOW if digits.strip("+-.0") else None
    if scale:
        parts = Decimal(text).as_tuple()
        n_zeros = len(parts.digits) - len("".join(map(str, parts.digits)).rstrip("0"))
        n_places = -int(parts.exponent) - n_zeros
        return faults.NOT_SCALED if 10 ** min(n_places, 20) > scale else None
    if not rounds and digits.lstrip("+-").isdecimal() and digits == text:
        # From 2^63 on an integer beside decimals or negative ones has no integer type.
        return faults.INEXACT_INTEGER if int(value) != Decimal(text) or abs(value) >= 2**63 else None
    return None


def fault_error(fault: Fault, block: TextBlock, n_lines: int, syntax: LineSyntax) -> InputError:
    """Return the error that tells of a fault in a block with `n_lines` lines before it."""
    before = block.data[: fault.position].tobytes()
    line = n_lines + before.count(b"\n") + 1
    place = line_place(block.file.url, line)
    token = _token_at(block.data, fault.position).decode("utf-8", "replace")
    shown = token if len(token) <= 60 else token[:57] + "..."
    match fault.code:
        case faults.FEW_COLUMNS | faults.MANY_COLUMNS | faults.NO_COORDINATE_ROW:
            n_columns = len(block.data[fault.position :].tobytes().partition(b"\n")[0].split())
            n_columns -= bool(syntax.letter)
            plural = "" if n_columns == 1 else "s"
            return InputError(
                f"{place} has {n_columns} column{plural}, wanted {syntax.n_columns}",
                hint=_columns_hint(fault.code, syntax),
            )
        case faults.BAD_ID:
            return InputError(f"{place}: `{shown}` is not a vertex id", hint=_id_hint(syntax))
        case faults.NEGATIVE_ID:
            return InputError(f"{place}: vertex id `{shown}` is negative", hint=_id_hint(syntax))
        case faults.HUGE_ID:
            return InputError(f"{place}: vertex id `{shown}` is above 2^63 - 1", hint=_id_hint(syntax))
        case faults.ZERO_LED_ID:
            return InputError(f"{place}: {zero_led_problem(shown)}", hint=ZERO_LED_HINT)
        case faults.ID_OUT_OF_RANGE:
            return InputError(
                f"{place}: vertex id `{shown}` is outside {syntax.min_id} to {syntax.max_id}",
                hint="the file declares its number of vertices at its beginning: correct the one or the other",
            )
        case (
            faults.BAD_WEIGHT
            | faults.NOT_FINITE
            | faults.UNDERFLOW
            | faults.INEXACT_INTEGER
            | faults.NOT_SCALED
        ):
            # Formats that count their vertices have no choice of columns, and leave no row out.
            return weight_error(place, shown, fault.code, syntax.scale, of_table=syntax.min_id == 0)
        case faults.BAD_UTF8:
            word = _token_at(block.data, fault.position).decode("latin-1")
            return not_utf8_error(place, shown, word)
        case faults.BAD_COORDINATE:
            return InputError(
                f"{place}: `{shown}` is not a coordinate", hint="coordinates are numbers of at most 15 digits"
            )
        case faults.NO_WEIGHT:
            return InputError(
                f"{place}: the last neighbour has no weight", hint="the header says that edges have weights"
            )
        case faults.NO_VERTEX_WEIGHTS:
            return InputError(
                f"{place} ends before the weights of its vertex do", hint="the header says how many there are"
            )
        case _:
            assert fault.code == faults.WRONG_LETTER
            return InputError(
                f"{place} begins with `{shown}`, wanted `{chr(syntax.letter)}`",
                hint="the file may be damaged, or of another format: see `graph.format`",
            )


def control_error(place: str, byte: int) -> InputError:
    """Return the error of a byte that no text holds."""
    return InputError(
        f"{place} holds the control character 0x{byte:02x}",
        hint="the file may be damaged, or no text: fetch it again, or see `graph.format`",
    )


def carriage_return_error(place: str) -> InputError:
    """Return the error of a carriage return that ends a row alone: some readers would take two rows for one."""
    return InputError(
        f"{place} has a carriage return without a line feed, as old Macs end lines",
        hint="end lines with line feeds: `tr '\\r' '\\n'` turns the one into the other",
    )


def zero_led_problem(shown: str) -> str:
    """Return what is wrong with an id of digits that is no plain number."""
    sign = "a plus sign" if shown.startswith("+") else "a leading zero"
    return f"vertex id `{shown}` has {sign}, which an integer would lose, and the ids before it are integers"


ZERO_LED_HINT = (
    "set `graph.ids: string` to keep ids as they are written, or `integer` to read them as numbers"
)


def not_utf8_error(place: str, shown: str, as_latin_1: str) -> InputError:
    """Return the error of a word that is not UTF-8, with the word as Latin-1 would read it."""
    return InputError(
        f"{place}: `{shown}` is not UTF-8",
        hint=f"set `graph.encoding: latin-1` if `{as_latin_1[:60]}` is meant; else save the file as UTF-8",
    )


def weight_error(place: str, shown: str, code: int, scale: int = 0, *, of_table: bool = True) -> InputError:
    """Return the error of a weight with a fault `code` of `numbers_in_text`; `of_table` in text and tables."""
    match code:
        case faults.NOT_FINITE:
            return InputError(
                f"{place}: weight `{shown}` is not finite",
                hint="leave such edges out" + ", or set `graph.unreadable: skip`" * of_table,
            )
        case faults.UNDERFLOW:
            return InputError(
                f"{place}: weight `{shown}` is above zero, but float64 would make it zero",
                hint="scale the weights up",
            )
        case faults.INEXACT_INTEGER:
            return InputError(
                f"{place}: weight `{shown}` is an integer that no type holds exactly beside the other weights",
                hint="set `graph.weights.dtype: float64` to round it, or scale the weights down",
            )
        case faults.NOT_SCALED:
            if scale == 1:
                hint = "set `graph.weights.dtype: auto` to compute with decimals"
                return InputError(f"{place}: weight `{shown}` is no integer", hint=hint)
            return InputError(
                f"{place}: weight `{shown}` times {scale} is no integer",
                hint="raise `graph.weights.scale`, or remove it to compute with decimals",
            )
    hint = "weights are numbers such as 12, 0.5 or 3e-2"
    if of_table and re.fullmatch(r"[-+]?[0-9]+,[0-9]+", shown):
        hint = f"set `graph.decimal: comma` to read it as {shown.replace(',', '.')}"
    elif of_table:
        hint += "; `graph.weights.column` names another column, or `none`"
        hint += "; `graph.unreadable: skip` leaves such rows out"
    return InputError(f"{place}: `{shown}` is not a weight", hint=hint)


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


def _token_at(data: np.ndarray, position: int) -> bytes:
    line = data[position : position + 65536].tobytes().partition(b"\n")[0].split()
    return line[0] if line else b""


def _line_of(block: TextBlock, fault: Fault) -> str:
    """Return the line in which a fault is, to be shown."""
    data = block.data
    start = data[: fault.position].tobytes().rfind(b"\n") + 1
    line = data[start : start + 500].tobytes().partition(b"\n")[0]
    return line.decode("utf-8", "replace").rstrip("\r")


def _is_utf8(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True
