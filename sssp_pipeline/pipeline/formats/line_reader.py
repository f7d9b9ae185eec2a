"""Edges out of files of lines: blocks scanned on several threads, faults turned into messages with their line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.formats import numbers_in_text as faults
from sssp_pipeline.pipeline.formats import tokenizer
from sssp_pipeline.pipeline.formats.byte_streams import LineFile, TextBlock, read_blocks
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk
from sssp_pipeline.pipeline.formats.ordered import map_in_order
from sssp_pipeline.pipeline.formats.tokenizer import FLOAT, INTEGER, UNSIGNED, LineSyntax

MAX_ID = 2**63 - 1

_WEIGHT_DTYPES = {INTEGER: np.int64, UNSIGNED: np.uint64, FLOAT: np.float64}


@dataclass(frozen=True, eq=False)
class Fault:
    """Why a block could not be read further: a code of `numbers_in_text`, and the position of the token."""

    code: int
    position: int


class Scanned(Protocol):
    """What scanning a block gives: its number of lines, unless there is a fault in one of them."""

    @property
    def n_lines(self) -> int: ...

    @property
    def fault(self) -> Fault | None: ...


AnyScanned = TypeVar("AnyScanned", bound=Scanned)


@dataclass(frozen=True, eq=False)
class ScannedEdges:
    """The edges of a block."""

    chunk: EdgeChunk
    n_lines: int
    fault: Fault | None


def where(url: str, line: int) -> str:
    """Return the words that name a line of a file."""
    return f"`{storage.redacted(url)}` line {line}"


def read_edges(
    files: list[LineFile], syntax: LineSyntax, block_bytes: int, n_threads: int
) -> Iterator[tuple[LineFile, EdgeChunk]]:
    """Give the rows of `files` as chunks in order, each with its file; never an empty chunk.

    Raises
    ------
    InputError
        A row does not follow `syntax`; the message names its line and what is wrong there.
    """
    for file, scanned in scan_files(
        files, partial(scan_block, syntax=syntax), syntax, block_bytes, n_threads
    ):
        if len(scanned.chunk):
            yield file, scanned.chunk


def scan_files(
    files: list[LineFile],
    scan: Callable[[np.ndarray], AnyScanned],
    syntax: LineSyntax,
    block_bytes: int,
    n_threads: int,
) -> Iterator[tuple[LineFile, AnyScanned]]:
    """Give what `scan` makes of each block of `files`, in order, each with its file.

    Raises
    ------
    InputError
        The scan of a block met a fault; the blocks before it have been given.
    """

    def work(block: TextBlock) -> tuple[TextBlock, AnyScanned]:
        return block, scan(block.data)

    n_lines = 0
    for block, scanned in map_in_order(work, read_blocks(files, block_bytes), n_threads):
        if block.is_first:
            n_lines = block.file.n_lines
        if scanned.fault:
            raise _explained(scanned.fault, block, n_lines, syntax)
        n_lines += scanned.n_lines
        yield block.file, scanned


def scan_block(data: np.ndarray, syntax: LineSyntax) -> ScannedEdges:
    """Return the edges in `data`, (n,) uint8 that ends with a line end, and the first fault among them."""
    # The shortest row is `1 2` and its line end.
    most_rows = len(data) // 4 + 1
    src = np.empty(most_rows, np.int64)
    dst = np.empty(most_rows, np.int64)
    weights = np.empty(most_rows if syntax.weight_column >= 0 else 0, np.int64)
    doubtful = np.empty((2, 0), np.int64)
    mode = INTEGER
    while True:
        n_rows, n_lines, code, position, n_doubtful = tokenizer.scan_edges(
            data, syntax, mode, src, dst, weights, doubtful[0], doubtful[1]
        )
        if code not in (faults.NEED_UNSIGNED, faults.NEED_FLOAT):
            break
        mode = code
        if mode == FLOAT:
            doubtful = np.empty((2, most_rows), np.int64)
    fault = Fault(code, position) if code else None
    values = weights.view(_WEIGHT_DTYPES[mode])
    if n_doubtful:
        rows, tokens = doubtful[:, :n_doubtful]
        values[rows] = _parse_decimals(data, tokens)
        infinite = np.flatnonzero(np.isinf(values[rows]))
        if len(infinite):
            # The scan may have stopped at another fault, but later: it went over this one.
            fault = Fault(faults.NOT_FINITE, int(tokens[infinite[0]]) >> 32)
    given = values[:n_rows] if syntax.weight_column >= 0 else None
    if not syntax.ids_are_strings:
        return ScannedEdges(EdgeChunk(src[:n_rows], dst[:n_rows], given), n_lines, fault)
    names = []
    for tokens in (src[:n_rows], dst[:n_rows]):
        array, bad = gather_strings(data, tokens)
        if bad is not None and (fault is None or bad < fault.position):
            fault = Fault(faults.BAD_UTF8, bad)
        names.append(array)
    return ScannedEdges(EdgeChunk(names[0], names[1], given), n_lines, fault)


def gather_strings(data: np.ndarray, tokens: np.ndarray) -> tuple[pa.Array, int | None]:
    """Return packed tokens of `data` as a large_string array, and the position of the first that is not UTF-8."""
    offsets, content = tokenizer.gather_tokens(data, tokens)
    array = pa.LargeStringArray.from_buffers(len(tokens), pa.py_buffer(offsets), pa.py_buffer(content))
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        for token in tokens.tolist():
            if not _is_utf8(_token_at(data, token >> 32)):
                return array, token >> 32
    return array, None


def _parse_decimals(data: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Return the packed tokens as float64 rounded correctly, infinite where too large."""
    texts, _ = gather_strings(data, tokens)
    try:
        # Arrow takes no plus sign.
        return np.asarray(pc.cast(pc.utf8_ltrim(texts, "+"), pa.float64()))
    except pa.ArrowInvalid:
        return np.array([float(text) for text in texts.to_pylist()])


def _explained(fault: Fault, block: TextBlock, n_lines: int, syntax: LineSyntax) -> InputError:
    """Return the error that tells of a fault in a block with `n_lines` lines before it."""
    before = block.data[: fault.position].tobytes()
    line = n_lines + before.count(b"\n") + 1
    place = where(block.file.url, line)
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
        case faults.ID_OUT_OF_RANGE:
            return InputError(
                f"{place}: vertex id `{shown}` is outside {syntax.min_id} to {syntax.max_id}",
                hint="the file declares its number of vertices at its beginning: correct the one or the other",
            )
        case faults.BAD_WEIGHT:
            hint = "weights are numbers such as 12, 0.5 or 3e-2; `graph.weights.column: none` leaves them out"
            if line == 1:
                hint = (
                    "make a header a comment with #, or set `graph.format: csv` where tabs separate columns"
                )
            return InputError(f"{place}: `{shown}` is not a weight", hint=hint)
        case faults.NOT_FINITE:
            return InputError(
                f"{place}: weight `{shown}` is not finite", hint="leave out edges that cannot be used"
            )
        case faults.BAD_UTF8:
            return InputError(f"{place}: vertex id `{shown}` is not UTF-8", hint="save the file as UTF-8")
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


def _columns_hint(code: int, syntax: LineSyntax) -> str:
    if code == faults.NO_COORDINATE_ROW:
        return "every line holds a vertex id, x and y"
    named = {2: "source and target", 3: "source, target and weight"}.get(syntax.n_columns)
    return f"every line holds {named}" if named else "every line has as many columns as the first"


def _id_hint(syntax: LineSyntax) -> str:
    if syntax.min_id > 0:
        return f"ids are whole numbers from {syntax.min_id}"
    return "ids are whole numbers from 0; for names set `graph.ids: string`"


def _token_at(data: np.ndarray, position: int) -> bytes:
    line = data[position : position + 65536].tobytes().partition(b"\n")[0].split()
    return line[0] if line else b""


def _is_utf8(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True
