"""Detection: an edge list is opened in the format that its content shows, unless the workflow names one.

`registries.FORMATS` says how each format is recognised. The name of a file decides only if its content fits two of
them.
"""

from __future__ import annotations

import re

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import is_generated
from sssp_pipeline.pipeline.formats.beginning import Beginning, unreadable_error
from sssp_pipeline.pipeline.formats.columns.layout import delimiter_of, is_table_of_tabs
from sssp_pipeline.pipeline.formats.edge_list import InputEdges, ReadOptions
from sssp_pipeline.pipeline.formats.generated import open_generated
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.graph import misplaced_keys
from sssp_pipeline.workflow.registries import FORMATS, XML, Format, code_of

#: The options that only some formats take, and whose keys in `graph` have the same names.
_SAME_NAMES = ("encoding", "delimiter", "header", "decimal", "ids", "unreadable", "max_line_bytes")
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


def open_edge_list(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the files `urls`, which are read one after the other.

    `urls` have no globs (see `files.expand`); a `generated:` URL is the only one. Only the beginnings of the files are
    read and checked here.

    Raises
    ------
    InputError
        A file is missing, empty or in an unknown format; files are in different formats, or each is a whole graph; or
        the format does not take an option.
    """
    if any(is_generated(url) for url in urls):
        _refuse_misplaced(options, urls[0], "generated")
        return open_generated(urls, options)
    name = _format_of(urls, options)
    if FORMATS[name].whole_graphs and len(urls) > 1:
        raise InputError(
            f"`{files.redacted(urls[0])}` and `{files.redacted(urls[1])}` are {FORMATS[name].whole_graphs}, "
            "each a whole graph",
            hint="name one of them",
        )
    _refuse_misplaced(options, urls[0], name)
    edge_list: InputEdges = code_of(FORMATS[name].opens)(urls, options)
    if options.coordinates is not None and edge_list.read_coordinates is None:
        raise InputError(
            f"coordinates are given in `{files.redacted(options.coordinates)}`, "
            f"but a {edge_list.reading.format} edge list takes none",
            hint="name a table with the columns `id`, `lon` and `lat`: a `.co` file goes with a DIMACS graph",
        )
    return edge_list


def _refuse_misplaced(options: ReadOptions, url: str, format_name: str) -> None:
    """Raise `InputError` if a format does not take one of the `options`; `url` is its first file."""
    given = {name: getattr(options, name) for name in _SAME_NAMES}
    columns = {"source": options.source_column, "target": options.target_column}
    graph = {**given, "columns": columns, "weights": {"column": options.weight_column}, **options.own}
    for key, text in misplaced_keys(graph, format_name):
        raise InputError(
            f"`{files.redacted(url)}`: {text}", hint=f"remove `graph.{key}`, or set `graph.format`"
        )


def _format_of(urls: list[str], options: ReadOptions) -> str:
    if options.format != "auto":
        return options.format
    first, *others = (detect_format(url, options) for url in urls)
    for url, name in zip(urls[1:], others, strict=True):
        if name != first and name not in FORMATS[first].continues:
            raise InputError(
                f"`{files.redacted(urls[0])}` is in format {first}, `{files.redacted(url)}` in format {name}",
                hint="files read together are in one format; where this is a mistake, set `graph.format`",
            )
    return first


def detect_format(url: str, options: ReadOptions = ReadOptions()) -> str:  # noqa: B008 - frozen
    """Return the format of the file at `url`, a key of `registries.FORMATS`.

    Raises
    ------
    InputError
        The file is empty, holds only comments, is in no known format, or can be read in two ways.
    """
    beginning = Beginning(url, options)
    if not beginning.head:
        raise InputError(f"`{files.redacted(url)}` is empty", hint="check that this is the file you mean")
    for name, known in FORMATS.items():
        if known.begins and re.match(known.begins, beginning.text) and _is_in(known, beginning):
            return name
    _refuse_unreadable(beginning)
    first_row = beginning.sample.rows[0]
    if "\ufffd" in first_row and not _is_printable(first_row):
        raise unreadable_error(url, "is in no known format")
    for name, known in FORMATS.items():
        if known.first_row and re.search(known.first_row, first_row) and _is_in(known, beginning):
            return name
    return "csv" if _is_csv(beginning) else "text"


def _is_in(known: Format, beginning: Beginning) -> bool:
    """Return whether a file whose beginning fits the pattern of a format is in this format."""
    return not known.sniffs or code_of(known.sniffs)(beginning)


def _is_csv(beginning: Beginning) -> bool:
    if beginning.options.delimiter != "auto":
        return True
    delimiter = delimiter_of(beginning.sample, beginning.options)
    return delimiter in (",", ";", "|") or (delimiter == "\t" and is_table_of_tabs(beginning.sample))


def _refuse_unreadable(beginning: Beginning) -> None:
    """Raise `InputError` for a file in a format that cannot be read."""
    url, head, text = beginning.url, beginning.head, beginning.text
    root = re.match(XML, text)
    if root is not None or text.lstrip().startswith(b"<"):
        raise _other_xml_error(url, None if root is None else root["root"].decode())
    for pattern, what in _NOT_READ_TEXTS.items():
        if pattern.match(text):
            raise unreadable_error(url, f"is {what}, which cannot be read")
    for magic, what in _NOT_READ.items():
        if text.lstrip().startswith(magic) or head.startswith(magic):
            raise unreadable_error(url, f"is {what}, which cannot be read")
    if beginning.is_binary:
        for encoding in ("utf-16-le", "utf-16-be"):
            if _is_printable(head[: len(head) // 2 * 2].decode(encoding, "replace")):
                what = "may be UTF-16 without a byte order mark"
                raise unreadable_error(url, what, f"`graph.encoding: {encoding}`")
        raise unreadable_error(url, "is in no known format")


def _is_printable(row: str) -> bool:
    return all(character.isprintable() or character.isspace() for character in row)


def _other_xml_error(url: str, root: str | None) -> InputError:
    what, hint = _OTHER_XML.get((root or "").lower(), (None, None))
    if what is not None:
        return InputError(f"`{files.redacted(url)}` is {what}", hint=hint)
    of_kind = "XML" if root is None else f"XML of the kind `{root[:60]}`"
    return unreadable_error(
        url, f"is {of_kind}, and neither GraphML nor OpenStreetMap's, so it cannot be read"
    )
