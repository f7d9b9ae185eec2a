"""TNTP: the networks of the repository Transportation Networks for Research, files such as `SiouxFalls_net.tntp`.

A file begins with metadata such as `<NUMBER OF NODES> 24`, up to `<END OF METADATA>`. A row is a link: ten numbers in a
fixed order, then a semicolon. Comments begin with `~`. Ids count from 1. Python reads the rows one by one; the largest
networks of the repository have a hundred thousand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sssp_pipeline.base.csr import MAX_VERTICES
from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, InputEdges, ReadOptions
from sssp_pipeline.pipeline.formats.parsing.declared import (
    IDS_WHY,
    MAX_EDGES,
    declared_count,
    declared_reading,
    line_excerpt,
)
from sssp_pipeline.pipeline.formats.parsing.fault_errors import line_place
from sssp_pipeline.pipeline.formats.parsing.line_blocks import BYTE_ORDER_MARK, read_lines
from sssp_pipeline.pipeline.formats.reading import ColumnRead
from sssp_pipeline.pipeline.formats.row_by_row.python_rows import (
    Edge,
    chunks_of_edges,
    read_id,
    read_weight,
)
from sssp_pipeline.storage import files

#: The columns of a row.
COLUMNS = (
    *("init_node", "term_node", "capacity", "length", "free_flow_time"),
    *("b", "power", "speed", "toll", "link_type"),
)
_METADATA = re.compile(rb"<([A-Z][A-Z ]*)>[ \t]*(.*)")
_END = b"END OF METADATA"
#: What separates the numbers of a row; no carriage return and no other white space of Unicode.
_BLANKS = " \t\x0b\x0c"
_NODES, _LINKS, _FIRST_THRU = b"NUMBER OF NODES", b"NUMBER OF LINKS", b"FIRST THRU NODE"
#: What each of these numbers counts, and the largest one that is possible.
_LIMITS = {
    _NODES: ("nodes", MAX_VERTICES),
    _LINKS: ("links", MAX_EDGES),
    _FIRST_THRU: ("nodes up to the first thru node", MAX_VERTICES + 1),
}


def open_tntp(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the only file of `urls`.

    Raises
    ------
    InputError
        The metadata lack a number, or no weight is named. While the edges are read: a row is
        no link, or the number of links is not the declared one.
    """
    (url,) = urls
    weight = _weight_of(url, options)
    head = _Head.read(url, options.max_line_bytes)

    def read(n_threads: int) -> Iterator[EdgeChunk]:
        del n_threads
        edges = _links(url, head, weight, options)
        return chunks_of_edges(edges, "integer", options.block_bytes, has_weights=weight is not None)

    why = "named by the workflow" if weight else "no weight, as the workflow says"
    return InputEdges(
        replace(
            declared_reading("tntp", IDS_WHY),
            weight=ColumnRead(column=weight, why=why),
            unused=tuple(name for name in COLUMNS[2:] if name != weight),
            rules=head.rules,
        ),
        weight is not None,
        read,
        n_vertices=head.n_nodes,
        first_id=1,
    )


def _weight_of(url: str, options: ReadOptions) -> str | None:
    """Return the column of the weight, None for none; raise `InputError` if it is not named or does not exist."""
    asked = options.weight_column
    if asked == "none":
        return None
    if asked == "auto":
        raise InputError(
            f"`{files.redacted(url)}`: a link has several weights, such as its `length` and its `free_flow_time`",
            hint="choose one: `graph.weights.column: free_flow_time`, or length, toll or another of "
            f"{', '.join(COLUMNS[2:])}; or none",
        )
    if asked not in COLUMNS[2:]:
        raise InputError(
            f"`{files.redacted(url)}`: unknown column `{asked}` in `graph.weights.column`",
            hint=did_you_mean(asked, list(COLUMNS[2:])) + "Columns: " + ", ".join(COLUMNS[2:]),
        )
    return asked


@dataclass(frozen=True)
class _Head:
    """The metadata of a network."""

    n_nodes: int
    n_links: int
    #: The first vertex that paths may pass; 1 if they may pass every vertex.
    first_thru: int
    #: The number of lines up to the end of the metadata.
    n_lines: int

    @classmethod
    def read(cls, url: str, max_line_bytes: int) -> _Head:
        found: dict[bytes, int] = {}
        for number, line in enumerate(read_lines(url, max_line_bytes=max_line_bytes), 1):
            text = (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).strip()
            if not text or text.startswith(b"~"):
                continue
            place = line_place(url, number)
            metadata = _METADATA.fullmatch(text)
            if metadata is None:
                raise InputError(
                    f"{place}: `{line_excerpt(text)}` stands before `<END OF METADATA>`",
                    hint="a TNTP network begins with lines such as `<NUMBER OF NODES> 24`",
                )
            name, value = metadata[1].strip(), metadata[2].partition(b"~")[0].strip()
            if name == _END:
                return cls._of(url, found, number)
            if name in _LIMITS:
                if not value.isdigit():
                    raise InputError(
                        f"{place}: `{line_excerpt(text)}` gives no number",
                        hint="write a whole number behind it",
                    )
                if name in found:
                    raise InputError(
                        f"{place}: `<{name.decode()}>` stands a second time",
                        hint="remove the one that is wrong",
                    )
                found[name] = declared_count(place, value, *_LIMITS[name])
        raise InputError(
            f"`{files.redacted(url)}` has no `<END OF METADATA>`",
            hint="the file may be cut short: fetch it again",
        )

    @classmethod
    def _of(cls, url: str, found: dict[bytes, int], n_lines: int) -> _Head:
        for name in (_NODES, _LINKS):
            if name not in found:
                raise InputError(
                    f"`{files.redacted(url)}` has no `<{name.decode()}>` in its metadata",
                    hint="name the file of the network, which ends in `_net.tntp`: others hold trips, flows or nodes",
                )
        return cls(found[_NODES], found[_LINKS], found.get(_FIRST_THRU, 1), n_lines)

    @property
    def rules(self) -> tuple[str, ...]:
        """What the file says and paths do not obey."""
        if self.first_thru <= 1:
            return ()
        zones = f"zone {1}" if self.first_thru == 2 else f"zones 1 to {self.first_thru - 1}"
        return (f"paths may pass {zones}, which `<FIRST THRU NODE> {self.first_thru}` forbids",)


def _links(url: str, head: _Head, weight: str | None, options: ReadOptions) -> Iterator[Edge]:
    column = None if weight is None else COLUMNS.index(weight)
    n_read = 0
    for number, line in enumerate(read_lines(url, max_line_bytes=options.max_line_bytes), 1):
        text = line.partition(b"~")[0].decode("utf-8", "replace").strip(_BLANKS + "\r\n")
        if number <= head.n_lines or not text:
            continue
        place = line_place(url, number)
        row, end, rest = text.partition(";")
        words = re.split(f"[{_BLANKS}]+", row.rstrip(_BLANKS))
        if len(words) != len(COLUMNS) or not end or rest:
            raise InputError(
                f"{place}: `{row.strip()[:60]}` is not a link",
                hint=f"a link is {len(COLUMNS)} numbers and a semicolon: {', '.join(COLUMNS)}",
            )
        ends = [read_id(place, word, options) for word in words[:2]]
        outside = next((end for end in ends if not 1 <= end <= head.n_nodes), None)
        if outside is not None:
            raise InputError(
                f"{place}: vertex id `{outside}` is outside 1 to {head.n_nodes}",
                hint="correct the id, or `<NUMBER OF NODES>`",
            )
        n_read += 1
        yield ends[0], ends[1], None if column is None else read_weight(place, words[column], options)
    if n_read != head.n_links:
        raise InputError(
            f"`{files.redacted(url)}` declares {head.n_links} links but lists {n_read}",
            hint="the file may be cut short: fetch it again, or correct `<NUMBER OF LINKS>`",
        )
