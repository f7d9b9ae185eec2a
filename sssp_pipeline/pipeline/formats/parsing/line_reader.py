"""Line reader: several threads scan blocks of lines for edges; a fault becomes an error that names its line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.base.scratch import Scratch
from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, Result, SkippedRows
from sssp_pipeline.pipeline.formats.parsing import block_scan, faults, tokenizer
from sssp_pipeline.pipeline.formats.parsing.fault_errors import (
    FaultAt,
    control_error,
    fault_error,
    line_of_fault,
    line_place,
    mark_error,
    token_at,
)
from sssp_pipeline.pipeline.formats.parsing.file_parts import FilePart, read_parts
from sssp_pipeline.pipeline.formats.parsing.line_blocks import NEWLINE, LineFile, TextBlock
from sssp_pipeline.pipeline.formats.parsing.numbers_in_text import (
    INFINITE_OR_NAN,
    LARGEST_EXACT,
    NO_NUMBER,
    POINT,
    after_line,
    scan_decimal,
)
from sssp_pipeline.pipeline.formats.parsing.tokenizer import FLOAT, INTEGER, UNSIGNED, LineSyntax

MAX_ID = 2**63 - 1

_WEIGHT_DTYPES = {INTEGER: np.int64, UNSIGNED: np.uint64, FLOAT: np.float64}


Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Scanned(Generic[Found]):
    """What was found in a block, its lines, the fault that stopped the scan, and the faults of left-out lines."""

    found: Found
    n_lines: int
    fault: FaultAt | None
    skipped: Sequence[FaultAt] = ()


def read_edges(
    files: list[LineFile],
    syntax: LineSyntax,
    block_bytes: int,
    skipped: SkippedRows | None,
    work: Callable[[EdgeChunk], Result],
    n_threads: int,
) -> Iterator[Result]:
    """Give `work(chunk)` for the rows of `files` in order, in chunks that are not empty.

    The thread that reads a chunk works on it while it is in its cache. `work` may not keep the arrays of the chunk.
    With `skipped`, rows that do not follow `syntax` are left out and added to it.

    Raises
    ------
    InputError
        A row does not follow `syntax`; the message names its line and what is wrong there.
    """
    scratch = Scratch()

    def scan(data: np.ndarray) -> Scanned[list[Result]]:
        done = scan_block(data, syntax, skipped is not None, scratch)
        results = [work(done.found)] if len(done.found) and done.fault is None else []
        return Scanned(results, done.n_lines, done.fault, done.skipped)

    for results in scan_files(files, scan, syntax, block_bytes, n_threads, skipped):
        yield from results


def scan_files(
    files: list[LineFile],
    scan: Callable[[np.ndarray], Scanned[Found]],
    syntax: LineSyntax,
    block_bytes: int,
    n_threads: int,
    skipped: SkippedRows | None = None,
) -> Iterator[Found]:
    """Give what `scan` finds in each block of `files`, in order; add left-out rows to `skipped`.

    What `scan` returns may not share memory with the block.

    Raises
    ------
    InputError
        A fault stopped the scan of a block; the results of the blocks before it have been given.
    """
    scratch = Scratch()

    def work(part: FilePart | TextBlock) -> tuple[TextBlock, Scanned[Found], int, InputError | None]:
        block, error = part.read(scratch) if isinstance(part, FilePart) else (part, None)
        scanned, control = scan(block.data), tokenizer.control_at(block.data)
        if isinstance(part, FilePart):
            # The thread reads its next part into the same memory; only messages need the text.
            is_needed = control >= 0 or scanned.fault or scanned.skipped
            block = replace(block, data=block.data.copy() if is_needed else block.data[:0])
        return block, scanned, control, error

    n_lines = 0
    for block, scanned, control, error in map_in_order(work, read_parts(files, block_bytes), n_threads):
        if block.is_first:
            n_lines = block.file.n_lines
        if control >= 0 and (scanned.fault is None or control <= scanned.fault.position):
            place = line_place(block.file.url, n_lines + block.data[:control].tobytes().count(b"\n") + 1)
            byte = int(block.data[control])
            raise mark_error(place) if byte == tokenizer.MARK_BEGIN else control_error(place, byte)
        if scanned.fault:
            raise fault_error(scanned.fault, block, n_lines, syntax)
        if skipped is not None and scanned.skipped:
            faults_ = ((fault_error(fault, block, n_lines, syntax), fault) for fault in scanned.skipped)
            skipped.add(
                len(scanned.skipped), (f"{error.message}: {line_of_fault(block, f)}" for error, f in faults_)
            )
        n_lines += scanned.n_lines
        yield scanned.found
        if error is not None:
            raise error


def scan_block(
    data: np.ndarray, syntax: LineSyntax, skips: bool = False, scratch: Scratch | None = None
) -> Scanned[EdgeChunk]:
    """Return the edges in `data`, (n,) uint8 that ends with a line end, and the first fault among them.

    With `skips` a row with a fault is left out, and the scan goes on after it. With `scratch` the arrays are in its
    memory; otherwise they are new.
    """
    if scratch is None:
        most_rows = tokenizer.n_lines_of(data)
        src, dst, weights = (np.empty(most_rows, np.int64) for _ in range(3))
    else:
        # Each column has at least one byte, and one after it.
        most_rows = len(data) // (2 * syntax.n_columns) + 1
        src, dst, weights = (scratch.array(name, most_rows, np.int64) for name in ("src", "dst", "weights"))
    weights = weights if syntax.weight_column >= 0 else weights[:0]
    doubtful = np.empty((2, 0), np.int64)
    mode = INTEGER
    skipped: list[FaultAt] = []
    begin = (0, 0, 0, 0)
    while True:
        n_rows, n_lines, code, position, n_doubtful = block_scan.read_edges(
            data, syntax, mode, begin, src, dst, weights, doubtful[0], doubtful[1]
        )
        if code == faults.NEED_FLOAT and skips:
            # A row that is left out must not change how the other weights are read.
            code = _FAULT_OF_STATUS.get(scan_decimal(data, position, syntax.point)[2], code)
        if code in (faults.NEED_UNSIGNED, faults.NEED_FLOAT):
            mode, begin = code, (0, 0, 0, 0)
            skipped.clear()
            if mode == FLOAT:
                doubtful = np.empty((2, most_rows), np.int64)
        elif code and skips:
            skipped.append(FaultAt(code, position))
            while n_doubtful and doubtful[0, n_doubtful - 1] >= n_rows:
                n_doubtful -= 1  # the doubtful weight belongs to the row that is left out
            begin = (int(after_line(data, position)), n_rows, n_lines + 1, n_doubtful)
        else:
            break
    fault = FaultAt(code, position) if code else None
    values = weights.view(_WEIGHT_DTYPES[mode])
    found: list[FaultAt] = []
    if n_doubtful:
        rows, tokens = doubtful[:, :n_doubtful]
        values[rows], lost = _parse_decimals(data, tokens, syntax)
        found += [FaultAt(why, int(tokens[i]) >> 32) for i, why in lost]
    ends: list[np.ndarray | pa.Array] = [src[:n_rows], dst[:n_rows]]
    if syntax.ids_are_strings:
        for k, tokens in enumerate(ends):
            ends[k], not_utf8 = gather_strings(data, tokens)
            found += [FaultAt(faults.BAD_UTF8, int(tokens[row]) >> 32) for row in not_utf8]
    if skips:
        skipped += [fault for fault in found if fault.code not in _INEXACT]
    if skipped:
        return _scanned_without(data, syntax, n_lines, sorted(skipped, key=lambda found: found.position))
    # The faults in `found` were found after the scan. They may precede the fault that stopped it.
    first = min([*found, *([fault] if fault else [])], key=lambda found: found.position, default=None)
    given = values[:n_rows] if syntax.weight_column >= 0 else None
    # What the scan leaves to another parser has too many digits for float64.
    return Scanned(EdgeChunk(ends[0], ends[1], given, is_rounded=n_doubtful > 0), n_lines, first)


#: The fault of a token that is not a decimal, by its status.
_FAULT_OF_STATUS = {NO_NUMBER: faults.BAD_WEIGHT, INFINITE_OR_NAN: faults.NOT_FINITE}
#: Faults of weights that are numbers, but cannot be represented exactly. Such rows are never left out.
_INEXACT = (faults.UNDERFLOW, faults.INEXACT_INTEGER, faults.NOT_SCALED)


def _scanned_without(
    data: np.ndarray, syntax: LineSyntax, n_lines: int, skipped: list[FaultAt]
) -> Scanned[EdgeChunk]:
    """Scan `data` again without the lines of the faults `skipped`, since these must not decide the weights' type."""
    ends = np.flatnonzero(data == NEWLINE) + 1
    starts = np.concatenate(([0], ends[:-1]))
    keep = np.ones(len(ends), bool)
    keep[np.searchsorted(ends, [fault.position for fault in skipped], side="right")] = False
    starts, ends = starts[keep], ends[keep]
    parts = [data[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    rest = scan_block(np.concatenate(parts) if parts else data[:0], syntax)
    fault = rest.fault
    if fault is not None:  # convert its position to one in the whole of `data`
        moved = np.concatenate(([0], np.cumsum(ends - starts)[:-1]))
        line = int(np.searchsorted(moved, fault.position, side="right")) - 1
        fault = FaultAt(fault.code, int(starts[line]) + fault.position - int(moved[line]))
    return Scanned(rest.found, n_lines, fault, skipped)


def gather_strings(data: np.ndarray, tokens: np.ndarray) -> tuple[pa.Array, list[int]]:
    """Return packed `tokens` of `data` as a large_string array, and the indices of the tokens that are not UTF-8."""
    offsets, content = tokenizer.gather_tokens(data, tokens)
    array = pa.LargeStringArray.from_buffers(len(tokens), pa.py_buffer(offsets), pa.py_buffer(content))
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return array, [i for i, t in enumerate(tokens.tolist()) if not _is_utf8(token_at(data, t >> 32))]
    return array, []


def _parse_decimals(
    data: np.ndarray, tokens: np.ndarray, syntax: LineSyntax
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return packed `tokens` as correctly rounded float64, and index and fault of each that is not exact enough."""
    texts, _ = gather_strings(data, tokens)
    texts = pc.utf8_ltrim(texts, "+")  # Arrow does not accept a plus sign
    if syntax.point != POINT:
        texts = pc.replace_substring(texts, chr(syntax.point), ".")
    try:
        values = np.asarray(pc.cast(texts, pa.float64()))
    except pa.ArrowInvalid:
        values = np.array([float(text) for text in texts.to_pylist()])
    # Only these values can have a fault. To check every decimal in Python would take longer than reading them.
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
    """Return the fault of the weight `text`, a number with a decimal point if any; None if it has none.

    `value` is the float64 nearest to `text`; `rounds` and `scale` are as in `LineSyntax`.
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
        # No type holds integers from 2^63 on together with decimals or negative weights.
        return faults.INEXACT_INTEGER if int(value) != Decimal(text) or abs(value) >= 2**63 else None
    return None


def has_too_many_digits(text: str) -> bool:
    """Return whether the number `text` has more digits than float64 keeps; zeros at its end do not count."""
    digits = "".join(map(str, Decimal(text).as_tuple().digits)).rstrip("0")
    return int(digits or "0") > LARGEST_EXACT


def _is_utf8(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True
