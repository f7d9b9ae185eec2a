"""Table columns: which of them are source, target and weight.

The workflow may name them. Otherwise their names decide, or their order if they have no names. A name is split into
words: `fromStop`, `from_stop` and `From Stop` are all from + stop. If more than one choice is possible, it is an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any, TypeAlias

from sssp_pipeline.base.error_text import Either, Keys, Text, key
from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.pipeline.formats.columns.column_names import (
    ID_WORDS,
    INDEX_NAMES,
    PAIRS,
    SOURCE_WORDS,
    TARGET_WORDS,
    WEAK_PAIRS,
    WEIGHT_WORDS,
    are_numbered,
    has_index,
    words,
)
from sssp_pipeline.pipeline.formats.edge_list import ReadOptions
from sssp_pipeline.pipeline.formats.reading import ColumnRead
from sssp_pipeline.storage import files

#: What messages call the ends of an edge if no columns hold them.
FIXED_ENDS = ("source", "target")


@dataclass(frozen=True)
class EdgeColumns:
    """The 0-based places of source, target and weight in a table, and why each was chosen.

    `names` has the name of every column. `weight` is None without weights.
    """

    names: tuple[str, ...]
    source: int
    target: int
    weight: int | None
    why: tuple[str, str, str]

    @property
    def used(self) -> list[int]:
        """The columns to be read: source, target and perhaps weight."""
        return [self.source, self.target, *([self.weight] if self.weight is not None else [])]

    @property
    def weight_name(self) -> str | None:
        """The name of the column of the weight; None without weights."""
        return None if self.weight is None else self.names[self.weight]

    def with_ends(self, source: str, target: str, why: str) -> EdgeColumns:
        """Return the columns with other names for source and target, which are the first two, and another reason."""
        return replace(self, names=(source, target, *self.names[2:]), why=(why, why, self.why[2]))

    def reading_fields(self) -> dict[str, Any]:
        """Return the fields of `Reading` that describe columns."""
        unused = tuple(name for i, name in enumerate(self.names) if i not in self.used)
        return {
            "source": ColumnRead(column=self.names[self.source], why=self.why[0]),
            "target": ColumnRead(column=self.names[self.target], why=self.why[1]),
            "weight": ColumnRead(column=self.weight_name, why=self.why[2]),
            "unused": unused,
        }


def names_both_ends(names: Sequence[str]) -> bool:
    """Return whether exactly one pair of `names` means source and target; weak pairs do not count."""
    found = _pairs(names, range(len(names)))
    return len(found) == 1 and not SOURCE_WORDS.isdisjoint(words(names[found[0][0]]))


def may_name_both_ends(names: Sequence[str]) -> bool:
    """Return whether a pair of `names` may mean source and target."""
    return bool(_pairs(names, range(len(names))))


def choose_columns(
    place: str, names: Sequence[str], options: ReadOptions, numeric: Set[int], *, by_name: bool
) -> EdgeColumns:
    """Return the columns that `options` name, or else the only possible ones.

    `names` has the name or the number of every column. `numeric` are the places of the columns that contain a number.
    With `by_name` the names say what the columns contain. Otherwise their order does: source, target, weight.

    Raises
    ------
    InputError
        A requested column is missing, there are fewer than two columns, two columns have the same name, or more than
        one choice is possible.
    """
    _check_names(place, names)
    requested = _requested_columns(place, names, options, numeric)
    source, target, weight = requested
    why = ["named by the workflow"] * 3
    if source is None or target is None:
        taken = {i for i in requested if i is not None}
        rest = [i for i in range(len(names)) if i not in taken]
        found = _pairs(names, rest, source, target) if by_name else _first_two(names, rest, source, target)
        # Without names, a table with an index may also hold a matrix.
        is_known = len(found) == 1 and (by_name or not has_index(names))
        if not is_known:
            what = "more than one pair could be" if len(found) > 1 else "none is known as"
            ends = _likely_ends(names, rest, found, (source, target))
            free = [i for i in rest if i not in chain(*found, ends)]
            weights = _likely_weights(names, free, numeric) if weight is None else [weight]
            raise InputError(
                f"{place}: of the columns {_names_text(names)} {what} source and target of an edge",
                hint=_columns_example(names, ends, weights, options),
            )
        by = "by its name" if by_name else "by its place"
        why[:2] = [by if i is None else why[0] for i in (source, target)]
        source, target = found[0]
    if options.weight_column == "none":
        why[2] = "no weight, as the workflow says"
    elif weight is None:
        left = [i for i in range(len(names)) if i not in (source, target)]
        weight, why[2] = _choose_weight(
            place, names, left, numeric, (source, target), options, by_name=by_name
        )
    return EdgeColumns(tuple(names), source, target, weight, (why[0], why[1], why[2]))


def choose_weight(
    place: str,
    names: Sequence[str],
    numeric: Set[str],
    options: ReadOptions,
    ends: tuple[str, str] = FIXED_ENDS,
) -> EdgeColumns:
    """Return which of the attributes `names` is the weight, in a format where the ends of edges are no attributes.

    `numeric` are the names of the attributes that hold a number, and `ends` is what messages call the ends.

    Raises
    ------
    InputError
        As `choose_columns` does.
    """
    every = [*ends, *names]
    places = {i for i, name in enumerate(every) if name in numeric}
    fixed = replace(options, source_column=ends[0], target_column=ends[1])
    return choose_columns(place, every, fixed, places, by_name=True)


def refuse_unused_numbers(
    place: str, columns: EdgeColumns, numeric: Set[int], options: ReadOptions, first_cells: Sequence[str] = ()
) -> None:
    """Raise `InputError` if columns without names hold more numbers than one weight, so that one must be named.

    `first_cells` are the first cells of the rows: they may number the rows.
    """
    names = columns.names
    free = [i for i in range(len(names)) if i not in columns.used and names[i] not in INDEX_NAMES]
    unused = [i for i in free if i in numeric]
    if columns.weight is None or not unused:
        return
    hint = _columns_example(names, columns.used[:2], [columns.weight, *unused], options)
    counts = ([str(i) for i in range(start, start + len(first_cells))] for start in (0, 1))
    if columns.used == [0, 1, 2] and first_cells and list(first_cells) in counts:
        lines = _columns_example(names, [1, 2], [3], options).partition("\n")[2]
        hint += f"\nor, if the first column numbers the rows:\n{lines}"
    raise InputError(
        f"{place}: the columns {_names_text([names[i] for i in sorted({columns.weight, *unused})])} hold numbers, "
        "and nothing says which is the weight",
        hint=hint,
    )


def _check_names(place: str, names: Sequence[str]) -> None:
    if len(names) < 2:
        raise InputError(
            f"{place} has 1 column, `{''.join(names)[:60]}`, wanted source and target",
            hint=Text(
                "a row holds source, target and perhaps a weight",
                Either(
                    ", separated by white space, a comma, a semicolon, `|` or tab; `graph.delimiter` says which"
                ),
            ),
        )
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise InputError(f"{place} has two columns `{twice}`", hint="give each column its own name")


def _requested_columns(
    place: str, names: Sequence[str], options: ReadOptions, numeric: Set[int]
) -> list[int | None]:
    """Return the places of the columns that the workflow names for source, target and weight; None for "auto"."""
    requested = [
        _requested_column(place, names, column, name)
        for column, name in (
            (options.source_column, "columns.source"),
            (options.target_column, "columns.target"),
            ("auto" if options.weight_column == "none" else options.weight_column, "weights.column"),
        )
    ]
    double = next((i for i in requested if i is not None and requested.count(i) > 1), None)
    if double is not None:
        every = list(range(len(names)))
        found = _first_two(names, every, None, None) if are_numbered(names) else _pairs(names, every)
        ends = _likely_ends(names, every, found, (None, None))
        weights = _likely_weights(names, [i for i in every if i not in ends], numeric)
        raise InputError(
            f"{place}: column `{names[double]}` is named twice, for two parts of an edge",
            hint=_columns_example(names, ends, weights, options),
        )
    return requested


def check_same_columns(urls: list[str], tables: Sequence[EdgeColumns]) -> None:
    """Raise `InputError` unless all tables have the same names for source, target and weight."""
    for url, table in zip(urls, tables, strict=True):
        first, other = ([t.names[i] for i in t.used] for t in (tables[0], table))
        if first != other:
            with_weights = [t.weight is not None for t in (tables[0], table)]
            if with_weights[0] != with_weights[1]:
                has, lacks = (urls[0], url) if with_weights[0] else (url, urls[0])
                raise InputError(
                    f"`{files.redacted(has)}` has weights, `{files.redacted(lacks)}` has none",
                    hint=Text("set ", key("graph.weights.column", "none"), " to leave them out"),
                )
            raise InputError(
                f"`{files.redacted(urls[0])}` has the columns {_names_text(first)}, "
                f"`{files.redacted(url)}` {_names_text(other)}",
                hint=Text(
                    "files read together need equal column names: set ",
                    key("graph.columns"),
                    " and ",
                    key("graph.weights.column"),
                ),
            )


def _first_two(
    names: Sequence[str], rest: list[int], source: int | None, target: int | None
) -> list[tuple[int, int]]:
    free = (i for i in rest if names[i] not in INDEX_NAMES)
    found = tuple(next(free, -1) if i is None else i for i in (source, target))
    return [] if -1 in found else [(found[0], found[1])]


def _pairs(
    names: Sequence[str], rest: Sequence[int], source: int | None = None, target: int | None = None
) -> list[tuple[int, int]]:
    """Return the pairs of columns that may be source and target; one of the two may be given."""
    cut = {i: words(name) for i, name in enumerate(names)}
    # `start_time` is not an end of an edge.
    free = [i for i in rest if not WEIGHT_WORDS & set(cut[i])]
    sources = [i for i in free if SOURCE_WORDS & set(cut[i]) and not TARGET_WORDS & set(cut[i])]
    targets = [i for i in free if TARGET_WORDS & set(cut[i]) and not SOURCE_WORDS & set(cut[i])]
    if source is not None or target is not None:
        return list(product(sources if source is None else [source], targets if target is None else [target]))
    if len(sources) == 1 and len(targets) == 1:
        return [(sources[0], targets[0])]
    # Find names that differ only in the words of a pair. Lookups, because a table may have thousands of columns.
    by_words: dict[tuple[str, ...], list[int]] = {}
    for i in free:
        by_words.setdefault(cut[i], []).append(i)
    return [
        (i, j)
        for i in free
        for k, word in enumerate(cut[i])
        for other in _PARTNERS.get(word, ())
        for j in by_words.get((*cut[i][:k], other, *cut[i][k + 1 :]), ())
    ]


#: For each word for a source, the words for a target that may be combined with it.
_PARTNERS: dict[str, list[str]] = {}
for _source, _target in (*PAIRS, *WEAK_PAIRS):
    _PARTNERS.setdefault(_source, []).append(_target)


def _choose_weight(
    place: str,
    names: Sequence[str],
    left: list[int],
    numeric: Set[int],
    ends: tuple[int, int],
    options: ReadOptions,
    *,
    by_name: bool,
) -> tuple[int | None, str]:
    """Return the column of the weight, None if no column could be one, and why."""
    if not by_name:
        left = [i for i in left if names[i] not in INDEX_NAMES]
        return (left[0], "by its place") if left else (None, "no weight: there is no third column")
    named = [i for i in left if WEIGHT_WORDS & set(words(names[i]))]
    # A column such as `length_unit` has a word for the weight in its name, but contains no numbers.
    candidates = [i for i in named if i in numeric] or named
    if len(candidates) == 1:
        return candidates[0], "by its name"
    if candidates or any(i in numeric for i in left):
        numbers = [i for i in left if i in numeric]
        possible = candidates or [i for i in numbers if names[i] not in INDEX_NAMES] or numbers
        known = (
            f"{len(possible)} columns could be the weight"
            if candidates
            else "no column is known as the weight"
        )
        # Some formats have no columns for the ends, and callers name their own.
        has_ends = "auto" not in (options.source_column, options.target_column)
        among = [names[i] for i in left] if has_ends else names
        raise InputError(
            f"{place}: of the columns {_names_text(among)} {known}: {_names_text([names[i] for i in possible])}",
            hint=_columns_example(
                names, ends, _likely_weights(names, possible, numeric), options, with_ends=not has_ends
            ),
        )
    return None, "no weight: no other column holds numbers" if left else "no weight: there is no other column"


#: The places of source and target in an example; None where no column is likely.
_Ends: TypeAlias = tuple[int | None, int | None]


def _likely_ends(
    names: Sequence[str], rest: Sequence[int], found: list[tuple[int, int]], given: _Ends
) -> _Ends:
    """Return the ends for an example: of the pairs `found`, the only one with the fewest words in its names.

    Without pairs, these are the columns of `rest` that remain when weights and the index are left out, if exactly as
    many remain as are missing; or the first ones of a table of three columns.
    """
    n_words = [sum(len(words(names[i])) for i in pair) for pair in found]
    if found:
        return found[n_words.index(min(n_words))] if n_words.count(min(n_words)) == 1 else given
    free = [i for i in rest if names[i] not in INDEX_NAMES]
    may_be_ends = [i for i in free if not WEIGHT_WORDS & set(words(names[i]))]
    if len(may_be_ends) != given.count(None) and len(free) == 3:
        may_be_ends = free[: given.count(None)]
    if len(may_be_ends) != given.count(None):
        return given
    left = iter(may_be_ends)
    source, target = (next(left) if i is None else i for i in given)
    return source, target


def _likely_weights(names: Sequence[str], rest: Sequence[int], numeric: Set[int]) -> list[int]:
    """Return the columns of `rest` that hold numbers and are no ids, the likeliest weights first."""
    likely = []
    for i in rest:
        found = set(words(names[i]))
        is_named = bool(WEIGHT_WORDS & found)
        is_id = bool(ID_WORDS & found) and (not is_named or "id" in found)
        if i in numeric and names[i] not in INDEX_NAMES and not is_id:
            likely.append((not is_named, i))
    return [i for _, i in sorted(likely)]


def _columns_example(
    names: Sequence[str],
    ends: Sequence[int | None],
    weights: Sequence[int],
    options: ReadOptions,
    *,
    with_ends: bool = True,
) -> str:
    """Return the lines that name the columns in the workflow, as an example with the likeliest `weights` first."""
    lines = ["graph:"]
    values: dict[str, Any] = {}
    if with_ends:
        source, target = ("NAME" if i is None else names[i] for i in ends)
        lines.append(f"  columns: {{source: {_quoted(source)}, target: {_quoted(target)}}}")
        values["graph.columns"] = source, target
    if options.weight_column == "none" or not weights:
        lines.append("  weights: {column: none}")
        values["graph.weights.column"] = "none"
    else:
        choices = "".join(f"{_quoted(names[i])}, " for i in weights[1:6])
        lines.append(f"  weights: {{column: {_quoted(names[weights[0]])}}}    # or {choices}none")
        values["graph.weights.column"] = names[weights[0]]
    lead = (
        "name the columns, with yours in place of `NAME`:"
        if None in ends
        else "name the columns, for example:"
    )
    return Text(lead, Either("\n", " "), Keys(values, "\n".join(lines)))


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "'" + name.replace("'", "''") + "'"


def _names_text(names: Sequence[str]) -> str:
    first = ", ".join(f"`{name[:60]}`" for name in names[:20])
    return first + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _requested_column(place: str, names: Sequence[str], asked: str, name: str) -> int | None:
    if asked == "auto":
        return None
    shown = ", ".join(name or "``" for name in names)
    if asked in names:
        return names.index(asked)
    if asked.isdecimal() and len(asked) < 10:
        if 1 <= int(asked) <= len(names):
            return int(asked) - 1
        raise InputError(
            Text(
                f"{place} has {len(names)} columns, and ", key(f"graph.{name}"), f" asks for column {asked}"
            ),
            hint="columns count from 1: " + shown,
        )
    raise InputError(
        Text(f"{place}: unknown column `{asked}` in ", key(f"graph.{name}")),
        hint=did_you_mean(asked, list(names)) + "Columns: " + shown,
    )
