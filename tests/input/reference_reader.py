"""What an edge list means: a slow and plain reader of every format.

It is written from docs/design/0010-reading-an-input.md, not from the program, so that the two can be compared. It reads
the whole input. Whatever has two readings, or none, is refused. Three modules beside it have the rules: of lines, ids
and weights (`reference_graph`), of tables, and of formats that declare their counts.

`understood(data, name, graph)` takes the bytes of a file, its name, and the `graph` section of a workflow as a dict. It
returns a `Graph`, or a `Refused` with the reason.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import struct
import tarfile
import zipfile

import pyarrow as pa
from reference_declared import read_dimacs, read_galois, read_matrix_market, read_metis, read_npz, read_tntp
from reference_graph import BLANKS, DIGITS, NUMBER, Graph, Refused, rows_of, weight_types, words
from reference_graphml import is_graphml, read_graphml
from reference_lines import SQLITE_MAGIC, is_geoparquet, read_geopackage, read_geoparquet
from reference_osm import is_osm, read_osm
from reference_pbf import is_pbf, read_pbf
from reference_tables import NETWORKX_ROW, read_csv, read_networkx, read_parquet, read_table, read_text


def understood(data: bytes, name: str, graph: dict) -> Graph | Refused:
    """Return what the file means, or why it is refused."""
    try:
        meant = _read(data, name, graph)
        weight_types(meant, graph)
    except Refused as refusal:
        return refusal
    return meant


def _read(data: bytes, name: str, graph: dict) -> Graph:
    data, name = unwrapped(data, name)
    if not data:
        raise Refused("empty")
    asked = graph.get("format", "auto")
    if is_pbf(data):
        return read_pbf(data, graph)
    found = _binary_format(data)
    if data.startswith(SQLITE_MAGIC):
        return read_geopackage(data, graph)
    if found == "parquet" and data.startswith(b"PAR1") and is_geoparquet(data, graph):
        return read_geoparquet(data, graph)
    if found in ("parquet", "scipy-npz") or asked in ("parquet", "scipy-npz"):
        if asked not in ("auto", found):
            raise Refused(f"the file is {found}, not {asked}")
        return read_parquet(data, graph) if found == "parquet" else read_npz(data, graph)
    if asked == "galois" or (asked == "auto" and found == "galois"):
        return read_galois(data, graph)
    if asked == "graphml" or (asked == "auto" and is_graphml(data)):
        return read_graphml(data, graph)
    text = decoded(data, graph.get("encoding", "auto"))
    if asked == "osm" or (asked == "auto" and is_osm(text)):
        return read_osm(data, graph)
    limit = graph.get("max_line_bytes", 2**24)
    if len(text) > limit and any(len(line.encode(errors="replace")) >= limit for line in text.split("\n")):
        raise Refused("a line is too long")
    if "\n\ufeff" in f"\n{text}":
        raise Refused("a byte order mark inside of the text")
    kind = asked if asked != "auto" else _text_format(text, name, graph)
    if kind not in READERS:
        raise Refused(f"no format {kind}")
    return READERS[kind](text, graph)


# Containers and encodings.


def unwrapped(data: bytes, name: str) -> tuple[bytes, str]:
    """Return the file inside of compressed files and archives, and its name."""
    for _ in range(4):
        try:
            if data.startswith(b"\x1f\x8b"):
                data, name = gzip.decompress(data), name.removesuffix(".gz")
            elif data.startswith(b"BZh"):
                data, name = bz2.decompress(data), name.removesuffix(".bz2")
            elif data.startswith(b"\xfd7zXZ\x00"):
                data, name = lzma.decompress(data), name.removesuffix(".xz")
            elif data.startswith(b"\x28\xb5\x2f\xfd"):
                with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
                    data, name = stream.read(), name.removesuffix(".zst")
            elif data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
                with zipfile.ZipFile(io.BytesIO(data)) as archive:
                    names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
                    if any(member.endswith(".npy") for member in names):
                        return data, name
                    if len(names) != 1:
                        raise Refused(f"{len(names)} members")
                    data, name = archive.read(names[0]), _inner(name.removesuffix(".zip"), names[0])
            elif data[257:262] == b"ustar":
                with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
                    members = [member for member in archive if not member.isdir()]
                    if len(members) != 1 or not members[0].isfile():
                        raise Refused(f"{len(members)} members")
                    stream = archive.extractfile(members[0])
                    data, name = stream.read(), _inner(name.removesuffix(".tar"), members[0].name)
                    if len(data) != members[0].size:
                        raise Refused("cut short")
            else:
                return data, name
        except Refused:
            raise
        except Exception as error:  # each of these modules has errors of its own
            raise Refused(f"damaged: {error}") from None
    return data, name


def _inner(outer: str, member: str) -> str:
    """Return the name that tells METIS from text: that of the archive or that of its member."""
    return outer if outer.endswith((".graph", ".metis")) else member


def decoded(data: bytes, encoding: str) -> str:
    """Return the text; bytes that are not UTF-8 stay as lone surrogates, for they may stand in a comment."""
    if encoding == "auto":
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        utf8 = encoding.lower().replace("_", "-") in ("utf-8", "utf8")
        text = data.decode(encoding, "surrogateescape" if utf8 else "strict")
    except (UnicodeError, LookupError) as error:
        raise Refused(f"not {encoding}: {error}") from None
    return text.removeprefix("\ufeff")


def _binary_format(data: bytes) -> str | None:
    if data.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")):
        return "parquet"
    if data.startswith(b"PK"):
        return "scipy-npz"
    if len(data) >= 16:
        version, weight_bytes = struct.unpack("<QQ", data[:16])
        if version in (1, 2) and weight_bytes <= 8:
            return "galois"
    return None


def _text_format(text: str, name: str, graph: dict) -> str:
    if text.startswith("%%MatrixMarket"):
        return "matrix-market"
    if re.match(r"(\s|~.*\n)*<(NUMBER OF|FIRST THRU|ORIGINAL HEADER|TOTAL OD|END OF METADATA)[ >]", text):
        return "tntp"
    for line in text.split("\n"):
        first = line.split()
        if first and not first[0].startswith("c"):
            if first[0] == "p" and first[1:2] and first[1] in ("sp", "edge", "col", "tw", "aux", "max"):
                return "dimacs"
            break
    rows = rows_of(text, "#%")
    if not rows:
        raise Refused("no edges")
    first = rows[0][1].strip(BLANKS)
    if first[0] in "<{[":
        raise Refused("HTML, XML or JSON")
    if all(
        words(line)[0] in ("a", "e") and len(words(line)) > 2 and all(map(NUMBER.fullmatch, words(line)[1:]))
        for _, line in rows
    ):
        raise Refused("DIMACS without its p line")
    if (
        name.endswith((".graph", ".metis"))
        and all(map(DIGITS.fullmatch, words(first)))
        and len(words(first)) in (2, 3, 4)
    ):
        return "metis"
    if NETWORKX_ROW.fullmatch(first):
        return "networkx"
    return "table"


READERS = {
    "text": read_text,
    "csv": read_csv,
    "table": read_table,
    "dimacs": read_dimacs,
    "matrix-market": read_matrix_market,
    "metis": read_metis,
    "tntp": read_tntp,
    "networkx": read_networkx,
}
