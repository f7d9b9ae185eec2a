"""Which columns of a table are source, target and weight: by the names asked for, else by the usual ones."""

from __future__ import annotations

from dataclasses import dataclass

from sssp_pipeline.errors import InputError, did_you_mean
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.formats.edge_list import ReadOptions

#: Lower-case names, the surest first.
SOURCE_NAMES = (
    "source",
    "src",
    "from",
    "tail",
    "start",
    "u",
    "fromnodeid",
    "from_id",
    "source_id",
    "src_id",
    "node1",
)
TARGET_NAMES = (
    "target",
    "dst",
    "to",
    "head",
    "end",
    "v",
    "tonodeid",
    "to_id",
    "target_id",
    "dst_id",
    "node2",
)
WEIGHT_NAMES = ("weight", "w", "length", "distance", "cost", "time", "duration", "value", "travel_time", "wt")


@dataclass(frozen=True)
class EdgeColumns:
    """Names of the columns of a table; `weight` is None where there are no weights."""

    source: str
    target: str
    weight: str | None

    def names(self) -> list[str]:
        """Return the columns to be read."""
        return [self.source, self.target, *([self.weight] if self.weight is not None else [])]


def looks_like_header(names: list[str]) -> bool:
    """Return whether `names` hold a usual name of a source and one of a target."""
    return _usual(names, SOURCE_NAMES) is not None and _usual(names, TARGET_NAMES) is not None


def choose_columns(url: str, names: list[str], options: ReadOptions) -> EdgeColumns:
    """Return the columns that `options` ask for, or that the usual names point to, else the first ones.

    A weight without a usual name is taken only from a table of three columns.

    Raises
    ------
    InputError
        A column asked for is not there, or there are fewer than two columns, or a name stands twice.
    """
    if len(names) < 2:
        raise InputError(
            f"`{storage.redacted(url)}` has 1 column, `{''.join(names)}`, wanted source and target",
            hint="check the separator, one of comma, semicolon and tab",
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"`{storage.redacted(url)}` has two columns `{twice}`", hint="give each column its own name"
        )
    source = _asked(url, names, options.source_column, "columns.source") or _usual(names, SOURCE_NAMES)
    target = _asked(url, names, options.target_column, "columns.target") or _usual(names, TARGET_NAMES)
    if source is None:
        source = next(name for name in names if name != target)
    if target is None:
        target = next(name for name in names if name != source)
    if source == target:
        raise InputError(
            f"`{storage.redacted(url)}`: column `{source}` cannot be both source and target",
            hint="set `graph.columns.source` and `graph.columns.target`",
        )
    return EdgeColumns(source, target, _weight(url, names, options.weight_column, {source, target}))


def refuse_mixed_weights(urls: list[str], columns: list[EdgeColumns]) -> bool:
    """Return whether the tables have weights.

    Raises
    ------
    InputError
        Some have weights, others have none.
    """
    has_weights = columns[0].weight is not None
    for url, other in zip(urls, columns, strict=True):
        if (other.weight is not None) != has_weights:
            with_weights, without = (urls[0], url) if has_weights else (url, urls[0])
            raise InputError(
                f"`{storage.redacted(with_weights)}` has weights, `{storage.redacted(without)}` has none",
                hint="set `graph.weights.column: none` to leave them out",
            )
    return has_weights


def _weight(url: str, names: list[str], asked: str, ends: set[str]) -> str | None:
    if asked == "none":
        return None
    weight = _asked(url, names, asked, "weights.column")
    if weight in ends:
        raise InputError(
            f"`{storage.redacted(url)}`: column `{weight}` cannot be both an id and the weight",
            hint="set `graph.weights.column` to another column, or to none",
        )
    others = [name for name in names if name not in ends]
    return weight or _usual(others, WEIGHT_NAMES) or (others[0] if len(names) == 3 else None)


def _asked(url: str, names: list[str], asked: str, key: str) -> str | None:
    if asked == "auto":
        return None
    if asked not in names:
        raise InputError(
            f"`{storage.redacted(url)}`: unknown column `{asked}` in `graph.{key}`",
            hint=did_you_mean(asked, names) + "Columns: " + ", ".join(names),
        )
    return asked


def _usual(names: list[str], usual: tuple[str, ...]) -> str | None:
    folded = {name.strip().lower(): name for name in reversed(names)}
    return next((folded[name] for name in usual if name in folded), None)
