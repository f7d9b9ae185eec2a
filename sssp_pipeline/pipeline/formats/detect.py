"""Detection: an edge list is opened in the format that its content shows, unless the workflow names one.

The name of a file decides only if its content fits two formats.
"""

from __future__ import annotations

import re
import struct
import zipfile
from itertools import islice
from urllib.parse import urlsplit

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.columns.layout import (
    SAMPLE_ROWS,
    Sample,
    cells_of_text,
    delimiter_of,
    is_table_of_tabs,
    read_sample,
)
from sssp_pipeline.pipeline.formats.edge_list import EdgeList, ReadOptions
from sssp_pipeline.pipeline.formats.generated import is_generated, open_generated
from sssp_pipeline.pipeline.formats.geometry.lines import has_lines
from sssp_pipeline.pipeline.formats.parsing.line_blocks import BYTE_ORDER_MARK, read_lines
from sssp_pipeline.pipeline.formats.streams.decompressed import open_decompressed, zip_members
from sssp_pipeline.pipeline.formats.streams.magic import (
    ARROW_FILE_MAGIC,
    ARROW_STREAM_MAGIC,
    PARQUET_MAGIC,
    is_osm_pbf,
)
from sssp_pipeline.pipeline.formats.tables.neo4j import is_header
from sssp_pipeline.pipeline.formats.tables.parquet import record_batches
from sssp_pipeline.pipeline.formats.text.dimacs import LETTERS
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.registries import FORMATS, code_of

_METIS_NAME = re.compile(r"\.(graph|metis)(\.(gz|bz2|xz|zst|zip|tar|tgz))*$")
#: The name of the root of an XML file, after declarations and comments.
_ROOT = re.compile(
    # Each part is atomic: otherwise many declarations would be tried in every combination.
    rb"(?:\s++|(?><\?.*?\?>)|(?><!--.*?-->)|(?><![A-Z].*?>)|\]>)*+<(?:[\w.-]+:)?([A-Za-z]+)[\s/>]",
    re.DOTALL,
)
#: The beginning of a TNTP network, whose metadata are in no fixed order.
_TNTP = re.compile(rb"(?:\s++|~.*+)*+<(?:NUMBER OF|FIRST THRU|ORIGINAL HEADER|TOTAL OD|END OF METADATA)[ >]")
#: The formats of XML files, by the names of their roots.
_XML_FORMATS = {b"osm": "osm", b"graphml": "graphml"}
#: How many comment lines are read in search of the problem line of a DIMACS graph.
_MAX_COMMENT_LINES = 10_000
#: Formats that cannot be read, by the first bytes of a file.
_NOT_READ = {
    b"%PDF": "a PDF",
    b"\x89HDF": "an HDF5 file",
    b"{": "JSON",
    b"[": "JSON",
    b"\x80\x04\x95": "a Python pickle",
    b"\x80\x05\x95": "a Python pickle",
    b"\x00\x00\x27\x0a": "a shapefile",
    b"\x93NUMPY": "a NumPy array",
    b"7z\xbc\xaf": "a 7z file",
    b"Rar!": "a rar file",
    b"\xff\xe0\x04o5m2": "an o5m file of OpenStreetMap",
    b"fgb\x03fgb": "a FlatGeobuf file",
}


#: Formats of graphs in text that cannot be read, by their beginning.
_NOT_READ_TEXTS = {
    re.compile(rb"\s*(?:Creator\s.*\s+)?(?:Version\s.*\s+)?graph\s*\["): "GML",
    re.compile(rb"\s*\*(?:vertices|network)\b", re.IGNORECASE): "a Pajek network",
    re.compile(rb"\s*(?:strict\s+)?(?:di)?graph\b[^\n{]*\{(?:\s*\n|[^'\"}\n]*-[->])"): "a graph in DOT",
}
#: XML that is no graph, by the name of its root: what it is, and what to do.
_OTHER_XML = {
    "html": ("a web page", "fetch the file again: a server may have sent a message in its place"),
    "osmchange": (
        "a list of changes to OpenStreetMap, not a map",
        "apply it to a map: `osmium apply-changes`",
    ),
}


def open_edge_list(urls: list[str], options: ReadOptions) -> EdgeList:
    """Return the edge list in the files `urls`, which are read one after the other.

    `urls` have no globs (see `files.expand`); a `generated:` URL is the only one. Only the beginnings of the files are
    read and checked here.

    Raises
    ------
    InputError
        A file is missing, empty or in an unknown format; files are in different formats; or the options do not fit
        the format.
    """
    if any(is_generated(url) for url in urls):
        return open_generated(urls, options)
    name = _format_of(urls, options)
    if options.layer != "auto" and name != "lines":
        raise InputError(
            f"`graph.layer` belongs to GeoPackage, and `{files.redacted(urls[0])}` is in format {name}",
            hint="remove `graph.layer`",
        )
    if options.profile != "auto" and name != "osm":
        raise InputError(
            f"`graph.profile` belongs to OpenStreetMap, and `{files.redacted(urls[0])}` is in format {name}",
            hint="remove `graph.profile`",
        )
    edge_list: EdgeList = code_of(FORMATS[name])(urls, options)
    if options.coordinates is not None and edge_list.read_coordinates is None:
        raise InputError(
            f"coordinates are given in `{files.redacted(options.coordinates)}`, "
            f"but a {edge_list.reading.format} edge list takes none",
            hint="name a table with the columns `id`, `lon` and `lat`: a `.co` file goes with a DIMACS graph",
        )
    return edge_list


def _format_of(urls: list[str], options: ReadOptions) -> str:
    if options.format != "auto":
        return options.format
    found = [detect_format(url, options) for url in urls]
    if found[0] == "neo4j" and set(found) <= {"neo4j", "csv", "text"}:
        return "neo4j"  # the header may be a file of its own, or that of the first file
    for url, name in zip(urls, found, strict=True):
        if name != found[0]:
            raise InputError(
                f"`{files.redacted(urls[0])}` is in format {found[0]}, `{files.redacted(url)}` in format {name}",
                hint="files read together are in one format; where this is a mistake, set `graph.format`",
            )
    return found[0]


def detect_format(url: str, options: ReadOptions = ReadOptions()) -> str:  # noqa: B008 - frozen
    """Return the format of the file at `url`, a key of `registries.FORMATS`.

    Raises
    ------
    InputError
        The file is empty, holds only comments, is in no known format, or can be read in two ways.
    """
    if _is_scipy_npz(url):
        return "scipy-npz"
    with open_decompressed(url, options.encoding) as stream:
        head = stream.read(4096)
    if not head:
        raise InputError(f"`{files.redacted(url)}` is empty", hint="check that this is the file you mean")
    if head.startswith((PARQUET_MAGIC, ARROW_FILE_MAGIC, ARROW_STREAM_MAGIC)):
        return "lines" if head.startswith(PARQUET_MAGIC) and _is_geoparquet(url, options) else "parquet"
    if head.startswith(b"SQLite format 3\0"):
        return "lines"
    if _is_galois(head):
        return "galois"
    if is_osm_pbf(head):
        return "osm"
    text = head.removeprefix(BYTE_ORDER_MARK)
    if (root := _ROOT.match(text)) is not None and root[1] in _XML_FORMATS:
        return _XML_FORMATS[root[1]]
    if _TNTP.match(text):
        return "tntp"
    if root is not None or text.lstrip().startswith(b"<"):
        raise _other_xml_error(url, None if root is None else root[1].decode())
    for pattern, what in _NOT_READ_TEXTS.items():
        if pattern.match(text):
            raise _unreadable_error(url, f"is {what}, which cannot be read")
    for magic, what in _NOT_READ.items():
        if text.lstrip().startswith(magic) or head.startswith(magic):
            raise _unreadable_error(url, f"is {what}, which cannot be read")
    if b"\0" in head:
        for encoding in ("utf-16-le", "utf-16-be"):
            if _is_printable(head[: len(head) // 2 * 2].decode(encoding, "replace")):
                what = "may be UTF-16 without a byte order mark"
                raise _unreadable_error(url, what, f"`graph.encoding: {encoding}`")
        raise _unreadable_error(url, "is in no known format")
    if text.startswith(b"%%MatrixMarket"):
        return "matrix-market"
    if text.lstrip()[:1] in (b"c", b"p") and _has_problem_line(url):
        return "dimacs"
    return _row_format(url, options)


def _row_format(url: str, options: ReadOptions) -> str:
    """Return the format of a file of rows, from its first rows without comments."""
    sample = read_sample(url, options, True)
    rows = sample.rows
    if "\ufffd" in rows[0] and not _is_printable(rows[0]):
        raise _unreadable_error(url, "is in no known format")
    if is_header(rows[0]):
        return "neo4j"
    words = cells_of_text(rows[0])
    has_metis_name = _METIS_NAME.search(urlsplit(url).path.lower()) is not None
    if has_metis_name and 2 <= len(words) <= 4 and all(word.isdecimal() for word in words):
        return "metis"
    _refuse_headless_dimacs(sample)
    if len(words) > 2 and words[2].startswith("{"):
        return "networkx"
    if options.delimiter != "auto":
        return "csv"
    delimiter = delimiter_of(sample, options)
    if delimiter in (",", ";", "|") or (delimiter == "\t" and is_table_of_tabs(sample)):
        return "csv"
    _refuse_nameless_metis(sample)
    return "text"


def _is_printable(row: str) -> bool:
    return all(character.isprintable() or character.isspace() for character in row)


def _refuse_headless_dimacs(sample: Sample) -> None:
    """Raise `InputError` if the rows are those of a DIMACS graph whose problem line is missing."""
    rows = [cells_of_text(row) for row in sample.rows]
    rows = [row for row in rows if row and row[0] != "c"]
    if rows and all(
        row[0] in ("a", "e") and len(row) in (3, 4) and all(cell.isdecimal() for cell in row[1:3])
        for row in rows
    ):
        raise InputError(
            f"{sample.place}: rows begin with `{rows[0][0]}`, as those of DIMACS, but no line `p sp VERTICES EDGES` "
            "precedes them",
            hint=f"add the line `p {'sp' if rows[0][0] == 'a' else 'edge'} VERTICES EDGES` before them; "
            "if these are vertices, set `graph.format: text` and `graph.ids: string`",
        )


def _refuse_nameless_metis(sample: Sample) -> None:
    """Raise `InputError` if the rows may also be a METIS graph, whose first row counts vertices and edges."""
    rows = [cells_of_text(row) for row in sample.rows]
    if len(rows) >= SAMPLE_ROWS or not all(cell.isdecimal() for row in rows for cell in row):
        return
    if not 2 <= len(rows[0]) <= 4 or len({len(row) for row in rows}) > 1 or max(map(len, sample.rows)) > 1000:
        return
    n_vertices, n_edges = int(rows[0][0]), int(rows[0][1])
    has_weights = len(rows[0]) > 2 and rows[0][2].endswith("1")
    neighbours = [[int(cell) for cell in row[:: 2 if has_weights else 1]] for row in rows[1:]]
    listed = {(u, v) for u, row in enumerate(neighbours, 1) for v in row}
    if (
        len(neighbours) == n_vertices
        and len(listed) == 2 * n_edges
        and all((v, u) in listed for u, v in listed)
    ):
        raise InputError(
            f"{sample.place}: `{sample.rows[0]}` may be an edge, or the header of a METIS graph",
            hint="set `graph.format: text` or `graph.format: metis`",
        )


def _has_problem_line(url: str) -> bool:
    # A text edge list may have vertices named `c`, `cat` or `p`. Only the first line without a leading `c` decides.
    for line in islice(read_lines(url), _MAX_COMMENT_LINES):
        words = line.split()
        if words and not words[0].startswith(b"c"):
            return words[0] == b"p" and len(words) > 1 and words[1] in (*LETTERS, b"aux", b"max")
    return False


def _is_galois(head: bytes) -> bool:
    if len(head) < 16:
        return False
    version, edge_bytes = struct.unpack("<QQ", head[:16])
    return version in (1, 2) and edge_bytes <= 8


def _is_geoparquet(url: str, options: ReadOptions) -> bool:
    """Return whether `url` is a GeoParquet file whose lines are the edges."""
    try:
        with record_batches(url, 1) as (schema, _):
            return has_lines(schema, options)
    except InputError:
        return False  # the reader of Parquet says what is wrong with it


def _is_scipy_npz(url: str) -> bool:
    """Return whether `url` is a file of `scipy.sparse.save_npz`."""
    with files.reading(url), files.open_read(url) as raw:
        if raw.read(4) != b"PK\x03\x04":
            return False
        try:
            names = set(zip_members(raw))
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return False  # `open_decompressed` says what is wrong with it
    if {"format.npy", "shape.npy", "data.npy"} <= names:
        return True
    if names and all(name.endswith(".npy") for name in names):
        raise _unreadable_error(url, "is a NumPy archive that `scipy.sparse.save_npz` did not write")
    return False


#: The formats that can be read, for messages.
READ = (
    "text, csv, dimacs, galois, graphml, lines (GeoParquet and GeoPackage), matrix (only if named), matrix-market, "
    "metis, neo4j, networkx (write_edgelist), osm (PBF and XML), parquet (Arrow too), scipy-npz and tntp, plain or in "
    "gz, bz2, xz, zst, zip or tar"
)


def _other_xml_error(url: str, root: str | None) -> InputError:
    what, hint = _OTHER_XML.get((root or "").lower(), (None, None))
    if what is not None:
        return InputError(f"`{files.redacted(url)}` is {what}", hint=hint)
    of_kind = "XML" if root is None else f"XML of the kind `{root[:60]}`"
    return _unreadable_error(
        url, f"is {of_kind}, and neither GraphML nor OpenStreetMap's, so it cannot be read"
    )


def _unreadable_error(url: str, what: str, instead: str = "") -> InputError:
    return InputError(
        f"`{files.redacted(url)}` {what}",
        hint=f"set {instead} if it is" if instead else f"convert it; what is read: {READ}",
    )
