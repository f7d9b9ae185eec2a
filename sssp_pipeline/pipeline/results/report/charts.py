"""Charts as inline SVG. Each has axes, a title and a description for screen readers, and its values as a table.

The style of the page gives colours to the classes `bar`, `line`, `mark`, `axis` and `grid`, light or dark. Only `_tag`
makes `Markup`, and it escapes every text: a title may contain what a user wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup, escape

#: Bars of a histogram. Whole numbers in a shorter range have a bar each.
N_BINS = 32
_WIDTH, _HEIGHT = 420, 230
#: The space around the plot, which holds the labels of the axes.
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 14, 26, 44
#: The height of a line of `stages`.
_ROW = 26
_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

#: Smaller ranges are no ranges: a factor that stretches them to a picture may be infinite.
_TINY = 1e-250

Range = tuple[float, float]


@dataclass(frozen=True)
class Table:
    """Rows of a table, and the headers of its columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Heading(NamedTuple):
    """What is said about a chart."""

    #: Names the chart in the page, which has no other chart with this name.
    key: str
    title: str
    #: What it shows; the text for readers who cannot see it.
    caption: str


@dataclass(frozen=True)
class Chart:
    """A picture, and the same in words."""

    title: str
    caption: str
    svg: Markup
    values: Table


@dataclass(frozen=True)
class Axis:
    """What an axis shows. A `whole` axis has no fractions at its ticks."""

    label: str
    whole: bool = False


def number(value: float) -> str:
    """Return `value` as text for tables and sentences."""
    if not isfinite(value):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.6g}"


def ticks(low: float, high: float, *, whole: bool = False, most: int = 6) -> list[float]:
    """Return at most `most` round numbers from `low` to `high`, evenly spaced; `low` must be less than `high`."""
    least_step = (high - low) / (most - 1)
    power = 10.0 ** floor(log10(least_step))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least_step * (1 - 1e-9))
    if whole:
        step = max(step, 1.0)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def tick_texts(values: Sequence[float]) -> list[str]:
    """Return short texts of `values`, all with the same suffix, such as 5k."""
    largest = max(map(abs, values), default=0)
    factor, suffix = next(((f, s) for f, s in _SUFFIXES if f <= largest < 1e15), (1.0, ""))
    texts = [f"{value / factor:g}{suffix}" if value else "0" for value in values]
    # Six digits do not tell apart the ticks of a narrow range of large numbers.
    return texts if len(set(texts)) == len(texts) else [f"{value:,.12g}" for value in values]


def histogram(
    key: str, title: str, values: np.ndarray, axis: Axis, note: str = "", of: str = "sources"
) -> Chart | None:
    """Return how often each range of `values` (n,) occurs; None if none of them is finite.

    Parameters
    ----------
    key, title
        As in `Heading`.
    note
        A sentence for the end of the caption.
    of
        What has the values, in the plural.
    """
    values = values[np.isfinite(values)].astype(np.float64)
    if not len(values) or not isfinite(span := float(values.max() - values.min())):
        return None
    low, high = float(values.min()), float(values.max())
    is_even = span <= max(abs(low), abs(high)) * 1e-12 + _TINY  # or too narrow to be divided
    if is_even:
        side = abs(low) / 4 if abs(low) > _TINY else 1.0
        counts, edges = np.array([0, len(values), 0]), low + side * np.array([-1.0, -0.1, 0.1, 1.0])
    elif span < N_BINS and (values == np.rint(values)).all():
        edges = np.arange(low, high + 2) - 0.5
        counts = np.histogram(values, edges)[0]
    else:
        counts, edges = np.histogram(values, N_BINS, (low, high))
    five, middle, most = np.quantile(values, [0.05, 0.5, 0.95])
    if is_even:
        caption = f"All {len(values):,} {of} have {number(low)}."
    else:
        caption = (
            f"{number(low)} to {number(high)}, median {number(middle)}; "
            f"90 % of {len(values):,} {of} are from {number(five)} to {number(most)}."
        )
    caption += note and f" {note}"
    ends = np.clip(edges, low, high)
    rows = [
        (number(a), number(b), f"{count:,}")
        for a, b, count in zip(ends[:-1], ends[1:], counts.tolist(), strict=True)
        if count
    ]
    axes, table = (axis, Axis(of, whole=True)), Table(("from", "to", of), rows)
    return bars(Heading(key, title, caption), edges, counts, *axes, table, middle)


def bars(
    heading: Heading,
    edges: np.ndarray,
    heights: np.ndarray,
    x: Axis,
    y: Axis,
    values: Table,
    mark: float | None,
) -> Chart:
    """Return bars between `edges` (n + 1,) with `heights` (n,); `mark` is the place of a vertical line."""
    plot = _Plot((float(edges[0]), float(edges[-1])), (0.0, float(heights.max()) or 1.0), x, y)
    shapes = [*plot.axes()]
    base = plot.y(0)
    for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True):
        if height:
            begin, top = plot.x(left), min(plot.y(height), base - 1)  # a small count stays visible
            width = max(plot.x(right) - begin - 0.8, 0.8)
            shapes.append(_tag("rect", x=begin, y=top, width=width, height=base - top, class_="bar"))
    if mark is not None:
        at = plot.x(mark)
        shapes.append(_tag("path", d=f"M{at:.1f} {_TOP}V{base:.1f}", class_="mark"))
    return _chart(heading, shapes, values)


def line(heading: Heading, at: np.ndarray, heights: np.ndarray, x: Axis, y: Axis, values: Table) -> Chart:
    """Return a line that has `heights` (n,) from each of `at` (n,) to the next, n at least 2."""
    plot = _Plot((float(at[0]), float(at[-1])), (0.0, float(heights.max()) or 1.0), x, y)
    steps = "".join(f"H{plot.x(a):.1f}V{plot.y(b):.1f}" for a, b in zip(at[1:], heights[1:], strict=True))
    start = f"M{plot.x(at[0]):.1f} {plot.y(heights[0]):.1f}"
    shapes = [*plot.axes(), _tag("path", d=start + steps, class_="line")]
    return _chart(heading, shapes, values)


def stages(heading: Heading, seconds: dict[str, float]) -> Chart:
    """Return a horizontal bar for each of `seconds`, with its share of all."""
    total = sum(seconds.values()) or 1.0
    longest = max(seconds.values()) or 1.0
    shapes, left, room = [], 84, _WIDTH - 84 - 120
    for row, (name, taken) in enumerate(seconds.items()):
        middle, width = row * _ROW + _ROW / 2, room * taken / longest
        text = f"{taken:,.2f} s, {taken / total:.0%}"
        shapes += [
            _tag("text", name, x=left - 8, y=middle + 4, text_anchor="end"),
            _tag("rect", x=left, y=middle - 8, width=max(width, 1), height=16, class_="bar"),
            _tag("text", text, x=left + max(width, 1) + 6, y=middle + 4),
        ]
    rows = [(name, f"{taken:,.2f}", f"{taken / total:.1%}") for name, taken in seconds.items()]
    return _chart(heading, shapes, Table(("stage", "seconds", "share"), rows), _ROW * len(seconds))


#: The colours of a map, near to far: each has a contrast of at least 3 to the background, in luminance.
_NEAR, _MIDDLE, _FAR = (255, 232, 120), (240, 100, 95), (140, 86, 220)
_N_COLOURS = 12
_UNREACHED = "rgb(118 118 118)"
_MAP = 640
#: The height of its legend, and the width of a colour there.
_LEGEND, _STEP = 56, 24


def coloured_map(
    heading: Heading, x: np.ndarray, y: np.ndarray, values: np.ndarray, source: int | None, label: str
) -> Chart | None:
    """Return points at `x`, `y` (n,), coloured by `values` (n,), NaN where there is none; None without a finite value.

    `source` is the point that gets a ring. `label` says what the colours stand for. Both axes have the same scale, and
    y points up.
    """
    reached = np.isfinite(values)
    if not reached.any():
        return None
    x_low, y_low = float(x.min()), float(y.min())
    span = max(float(x.max()) - x_low, float(y.max()) - y_low) or 1.0
    scale = (_MAP - 20) / span
    across = np.rint(10 + (x - x_low) * scale).astype(int)
    height = ceil(20 + (float(y.max()) - y_low) * scale)
    down = np.rint(height - 10 - (y - y_low) * scale).astype(int)
    low, high = float(values[reached].min()), float(values[reached].max())
    edges = np.linspace(low, high, _N_COLOURS + 1)
    kinds = np.where(reached, np.clip(np.searchsorted(edges, values, "right") - 1, 0, _N_COLOURS - 1), -1)
    shapes = [_tag("rect", width=_MAP, height=height + _LEGEND, class_="night")]
    rows = []
    # Unreached vertices first, then the far ones, so that near ones are on top.
    for kind in (-1, *range(_N_COLOURS - 1, -1, -1)):
        places = np.unique(np.stack([across[kinds == kind], down[kinds == kind]]), axis=1)
        colour = _UNREACHED if kind < 0 else _colour(kind / (_N_COLOURS - 1))
        if places.shape[1]:
            points = "".join(f"M{a} {b}h0" for a, b in places.T.tolist())
            shapes.append(_tag("path", d=points, stroke=colour, class_="points"))
        if kind >= 0:
            begin = 10 + kind * _STEP
            shapes.append(_tag("rect", x=begin, y=height + 6, width=_STEP, height=16, fill=colour))
            count = f"{int((kinds == kind).sum()):,}"
            rows.append((number(edges[kind]), number(edges[kind + 1]), count))
    end = 10 + _STEP * _N_COLOURS
    if source is not None:
        shapes.append(_tag("circle", cx=across[source], cy=down[source], r=6, class_="ring"))
    shapes += [
        _tag("text", number(low), x=10, y=height + 44, class_="day"),
        _tag("text", number(high), x=end, y=height + 44, text_anchor="end", class_="day"),
        _tag("text", label, x=end + 10, y=height + 20, class_="day"),
    ]
    if not reached.all():
        rows.insert(0, ("unreached", "", f"{int((~reached).sum()):,}"))
    table = Table(("from", "to", "vertices"), rows[::-1])
    return _chart(heading, shapes, table, height + _LEGEND, _MAP)


def _colour(share: float) -> str:
    """Return the colour of a map at `share` of the way from near to far."""
    first, second, part = (_NEAR, _MIDDLE, share * 2) if share < 0.5 else (_MIDDLE, _FAR, share * 2 - 1)
    return "rgb({} {} {})".format(*(round(a + (b - a) * part) for a, b in zip(first, second, strict=True)))


class _Plot:
    """The scales of two axes; the plot is a rectangle inside the picture."""

    def __init__(self, x: Range, y: Range, x_axis: Axis, y_axis: Axis) -> None:
        self._axes = x_axis, y_axis
        self._x_ticks = ticks(*x, whole=x_axis.whole)
        self._y_ticks = ticks(*y, whole=y_axis.whole, most=5)
        self.x = _scale(x, (_LEFT, _WIDTH - _RIGHT))
        self.y = _scale(y, (_HEIGHT - _BOTTOM, _TOP))

    def axes(self) -> Iterator[Markup]:
        """Yield lines and labels of both axes."""
        x_axis, y_axis = self._axes
        base, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        for value, text in zip(self._y_ticks, tick_texts(self._y_ticks), strict=True):
            at = self.y(value)
            yield _tag("path", d=f"M{_LEFT} {at:.1f}H{right}", class_="grid")
            yield _tag("text", text, x=_LEFT - 6, y=at + 4, text_anchor="end")
        for value, text in zip(self._x_ticks, tick_texts(self._x_ticks), strict=True):
            at = self.x(value)
            yield _tag("path", d=f"M{at:.1f} {base}v5", class_="axis")
            yield _tag("text", text, x=at, y=base + 18, text_anchor="middle")
        yield _tag("path", d=f"M{_LEFT} {_TOP}V{base}H{right}", class_="axis")
        yield _tag("text", y_axis.label, x=4, y=14)
        yield _tag("text", x_axis.label, x=(_LEFT + right) / 2, y=_HEIGHT - 6, text_anchor="middle")


def _scale(values: Range, places: Range) -> Callable[[float], float]:
    factor = (places[1] - places[0]) / (values[1] - values[0])
    return lambda value: places[0] + (value - values[0]) * factor


def _chart(
    heading: Heading, shapes: list[Markup], values: Table, height: float = _HEIGHT, width: float = _WIDTH
) -> Chart:
    key, title, caption = heading
    words = [_tag("title", title, id=f"{key}-title"), _tag("desc", caption, id=f"{key}-text")]
    content = Markup("\n").join([*words, *shapes])
    box = f"0 0 {width} {height}"
    names = {"aria_labelledby": f"{key}-title", "aria_describedby": f"{key}-text"}
    return Chart(title, caption, _tag("svg", content, viewBox=box, role="img", **names), values)


def _tag(name: str, content: str | None = None, **attributes: Any) -> Markup:
    """Return an element; `content` and the values of attributes are escaped unless they are `Markup`."""
    text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"' for key, value in attributes.items()
    )
    if content is None:
        return Markup(f"<{name}{text}/>")
    return Markup(f"<{name}{text}>{escape(content)}</{name}>")


def _short(value: Any) -> Any:
    return f"{value:.1f}" if isinstance(value, float) else value
