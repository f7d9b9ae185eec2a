"""CSV cells: the cells of a table, read as text by Arrow, are converted here to ids and weights.

A cell that cannot be converted does not raise. It adds the error of its row to a dictionary, since the caller may leave
the row out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.arrow_compute import pc, true_rows
from sssp_pipeline.pipeline.formats.columns.layout import BLANKS, is_number
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, ReadOptions
from sssp_pipeline.pipeline.formats.parsing import faults
from sssp_pipeline.pipeline.formats.parsing.fault_errors import (
    id_fault,
    not_utf8_error,
    weight_error,
)
from sssp_pipeline.pipeline.formats.parsing.line_reader import float64_fault, has_too_many_digits

#: A decimal with at most this many characters is read exactly enough: no other such decimal has the same float64.
_SAFE_CHARACTERS = 15


#: For rows with an error, by their index in a batch: a function that returns the error for a given place.
RowErrors = dict[int, Callable[[str], InputError]]


def convert_cells(
    cells: list[pa.Array], used: list[int], options: ReadOptions, id_kind: str
) -> tuple[EdgeChunk, RowErrors, RowErrors]:
    """Return the edges in `cells`; the edges of rows with an error are meaningless.

    Also returns two dictionaries of errors: of rows that are not edges, and of weights that no type represents exactly.

    `cells` are columns (n,) large_binary: source, target, perhaps weight, and the first column if it is none of these.
    `used` are the places in the file of source, target and perhaps weight. `id_kind` is "integer" or "string".
    """
    bad: RowErrors = {}
    lost: RowErrors = {}
    texts = [_texts(column, bad) for column in cells[: len(used)]]
    for column in cells[: len(used)]:
        for mark, pattern, wrong, hint in _FAULTS_OF_QUOTES:
            if _holds(column, mark):
                for row in true_rows(pc.match_substring_regex(column, pattern)):
                    text = column[row].as_py().decode("utf-8", "replace").replace("\n", "\\n")
                    bad.setdefault(row, partial(_row_error, wrong=f": `{text[:60]}` {wrong}", hint=hint))
    to_ends = _to_names if id_kind == "string" else _to_ids
    ends = [to_ends(texts[k], options, bad) for k in range(2)]
    weights, is_rounded = None, False
    if len(used) > 2:
        weights, is_rounded = to_weights(texts[2], options, bad, lost)
    if not (options.ids == "string" and 0 in used[:2]):
        first = cells[used.index(0) if 0 in used else len(used)]
        if _holds(first, b"#%"):
            for row in true_rows(pc.match_substring_regex(first, "^[ \\t]*[#%]")):
                text = first[row].as_py().decode("utf-8", "replace")
                wrong = f" begins with `{text[:60]}`: it may be a comment, or a cell"
                bad.setdefault(row, partial(_row_error, wrong=wrong, hint=_COMMENT_HINT))
    return EdgeChunk(ends[0], ends[1], weights, is_rounded), bad, lost


def _row_error(place: str, wrong: str, hint: str) -> InputError:
    return InputError(place + wrong, hint=hint)


#: For each fault of quoted cells: a byte that such a cell contains, a pattern for the cell, the problem and the hint.
_FAULTS_OF_QUOTES = (
    (b"\n", "\n", "in quotes goes over several lines", "end the quotes on the same line"),
    (
        b'"',
        '^[ \\t]+"',
        "has a blank before its quote, so the quotes belong to the cell",
        "remove the blank if they do not",
    ),
)
_COMMENT_HINT = (
    "remove comments after the first row; `graph.ids: string` takes it for an id if the first column has ids"
)
_EMPTY_ID = partial(
    _row_error, wrong=": a vertex id is empty", hint="`graph.unreadable: skip` leaves out rows without ids"
)


def _texts(cells: pa.Array, bad: RowErrors) -> pa.Array:
    """Return `cells` (n,) large_binary as trimmed text; add an error to `bad` for each cell that is not UTF-8."""
    try:
        texts = pc.cast(cells, pa.large_string())
    except pa.ArrowInvalid:
        found = cells.to_pylist()
        for i, cell in enumerate(found):
            try:
                cell.decode()
            except UnicodeDecodeError:
                excerpt = cell.decode("utf-8", "replace"), cell.decode("latin-1")
                bad.setdefault(i, partial(not_utf8_error, excerpt=excerpt[0][:60], as_latin_1=excerpt[1]))
                found[i] = b""
        texts = pc.cast(pa.array(found, pa.large_binary()), pa.large_string())
    return pc.utf8_trim(texts, BLANKS) if _holds(texts, BLANKS.encode()) else texts


def _to_names(texts: pa.Array, options: ReadOptions, bad: RowErrors) -> pa.Array:
    for row in true_rows(pc.equal(texts, "")):
        bad.setdefault(row, _EMPTY_ID)
    return texts


def _to_ids(texts: pa.Array, options: ReadOptions, bad: RowErrors) -> np.ndarray:
    ids = _cast(texts, pa.int64())
    keeps_zeros = options.ids == "integer"
    if ids is not None and (not len(ids) or int(ids.min()) >= 0) and not _has_odd_digits(texts, keeps_zeros):
        return ids
    ids = np.zeros(len(texts), np.int64)
    for i, text in enumerate(texts.to_pylist()):
        fault = _id_fault(text, keeps_zeros)
        if fault is None:
            ids[i] = int(text.lstrip("0") or "0")
        else:
            bad.setdefault(i, fault)
    return ids


def _has_odd_digits(texts: pa.Array, keeps_zeros: bool) -> bool:
    """Return whether any id has a sign, or a leading zero that conversion to an integer would remove."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.diff(offsets)
    first = np.frombuffer(texts.buffers()[2] or b"\0", np.uint8)[np.minimum(offsets[:-1], offsets[-1] - 1)]
    odd = (first == ord("-")) | (first == ord("+"))
    if not keeps_zeros:
        odd |= (first == ord("0")) & (lengths > 1)
    return bool((odd & (lengths > 0)).any())


def _holds(texts: pa.Array, characters: bytes) -> bool:
    """Return whether one of `characters` may occur in `texts`; the buffer may also hold other cells."""
    content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    return any(bool((content == character).any()) for character in characters)


def _id_fault(text: str, keeps_zeros: bool) -> Callable[[str], InputError] | None:
    """Return a function that makes the error of the id `text`; None if it is a valid integer id."""
    if not text:
        return _EMPTY_ID
    fault = id_fault(text, keeps_zeros)
    if re.fullmatch(r"-[0-9]+", text):
        fault = f"vertex id `{text[:60]}` is negative", "ids are whole numbers from 0"
    return None if fault is None else partial(_row_error, wrong=f": {fault[0]}", hint=fault[1])


def to_weights(
    texts: pa.Array, options: ReadOptions, bad: RowErrors, lost: RowErrors
) -> tuple[np.ndarray, bool]:
    """Return the weights in `texts` (n,), and whether one of them is a rounded one, as for `EdgeChunk`.

    Errors are added to `bad` and `lost`, which are those of `convert_cells`.
    """
    if options.point == ",":
        for row in true_rows(pc.match_substring(texts, ".")):
            excerpt = texts[row].as_py()[:60]
            bad.setdefault(row, partial(weight_error, excerpt=excerpt, code=faults.BAD_WEIGHT))
        texts = pc.replace_substring(texts, ",", ".")
    # Arrow does not accept a plus sign.
    if _holds(texts, b"+"):
        texts = pc.replace_substring_regex(texts, r"^\+([0-9.])", r"\1")
    for type_ in (pa.int64(), pa.uint64(), pa.float64()):
        numbers = _cast(texts, type_)
        if numbers is not None:
            is_rounded = False
            if type_ == pa.float64():
                is_rounded = _check_decimals(texts, numbers, options, bad, lost)
            return numbers, is_rounded
    values = np.ones(len(texts), np.float64)
    for row, text in enumerate(texts.to_pylist()):
        if is_number(text):
            values[row] = float(text)
        else:
            excerpt = text.replace(".", options.point)[:60]
            bad.setdefault(row, partial(weight_error, excerpt=excerpt, code=faults.BAD_WEIGHT))
    return values, _check_decimals(texts, values, options, bad, lost)


def _check_decimals(
    texts: pa.Array, values: np.ndarray, options: ReadOptions, bad: RowErrors, lost: RowErrors
) -> bool:
    """Note weights that are not finite in `bad`, and weights that float64 does not represent exactly in `lost`.

    Return whether another weight has more digits than float64 keeps.
    """
    is_rounded = False
    is_long = pc.greater(pc.binary_length(texts), _SAFE_CHARACTERS).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(~np.isfinite(values) | (values == 0) | is_long).tolist():
        if row in bad:
            continue
        text, value = texts[row].as_py(), float(values[row])
        code: int | None = faults.NOT_FINITE
        if np.isfinite(value):
            code = float64_fault(text, value, options.rounds, options.exact_scale)
        if code is not None:
            excerpt = text.replace(".", options.point)[:60]
            found = bad if code == faults.NOT_FINITE else lost
            found[row] = partial(weight_error, excerpt=excerpt, code=code, scale=options.exact_scale)
        elif is_long[row] and not is_rounded:
            is_rounded = has_too_many_digits(text)
    return is_rounded


def _cast(texts: pa.Array, type_: pa.DataType) -> np.ndarray | None:
    """Return the decimal numbers in `texts`; None if one of them is not a number of that type."""
    # Arrow would read `0x1f` as 31. The buffer may also hold other cells; an `x` there only costs time.
    if _holds(texts, b"xX"):
        return None
    try:
        return np.asarray(pc.cast(texts, type_))
    except pa.ArrowInvalid:
        return None
