"""One edge list written in every format; the rows are given as text, so that odd numbers can stand in them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
from collections.abc import Callable
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Rows = list[tuple[str, ...]]
HEADER = ("source", "target", "weight")


def lines(rows: Rows, separator: str, header: bool = False) -> bytes:
    named = [HEADER[: len(rows[0])], *rows] if header else rows
    return "".join(separator.join(row) + "\n" for row in named).encode()


def text(rows: Rows) -> bytes:
    return lines(rows, " ")


def csv(rows: Rows) -> bytes:
    return lines(rows, ",", header=True)


def networkx(rows: Rows) -> bytes:
    return "".join(f"{u} {v} {{'weight': {w}}}\n" for u, v, w in rows).encode()


def neo4j(rows: Rows) -> bytes:
    return lines([(":START_ID", ":END_ID", "weight:double")[: len(rows[0])], *rows], ",")


def graphml(rows: Rows) -> bytes:
    """The declarations take one line, and each edge another."""
    key = '<key id="w" for="edge" attr.name="weight" attr.type="double"/>' if len(rows[0]) > 2 else ""
    edges = []
    for source, target, *weight in rows:
        ends = f"source={quoteattr(source)} target={quoteattr(target)}"
        edges.append(
            f"<edge {ends}>" + "".join(f'<data key="w">{escape(w)}</data>' for w in weight) + "</edge>\n"
        )
    return f'<graphml>{key}<graph edgedefault="directed">\n{"".join(edges)}</graph></graphml>\n'.encode()


def dimacs(rows: Rows) -> bytes:
    n = max(int(end) for row in rows for end in row[:2])
    return (f"c made\np sp {n} {len(rows)}\n" + "".join(f"a {u} {v} {w}\n" for u, v, w in rows)).encode()


def osm(nodes: list[tuple[str, str]], ways: list[tuple[list[int], dict[str, str]]]) -> bytes:
    """Nodes are latitude and longitude, ways the nodes that they pass, counted from 1, and their tags."""
    out = ['<?xml version="1.0"?>', '<osm version="0.6">']
    out += [f'<node id="{i}" version="1" lat="{lat}" lon="{lon}"/>' for i, (lat, lon) in enumerate(nodes, 1)]
    for i, (refs, tags) in enumerate(ways, 1):
        out += [f'<way id="{i}" version="1">', *(f'<nd ref="{ref}"/>' for ref in refs)]
        out += [*(f"<tag k={quoteattr(key)} v={quoteattr(value)}/>" for key, value in tags.items()), "</way>"]
    return "\n".join([*out, "</osm>", ""]).encode()


def tntp(rows: Rows) -> bytes:
    """The weight is the length of a link."""
    n = max(int(end) for row in rows for end in row[:2])
    head = (
        f"<NUMBER OF ZONES> {n}\n<NUMBER OF NODES> {n}\n<FIRST THRU NODE> 1\n<NUMBER OF LINKS> {len(rows)}\n"
        "<END OF METADATA>\n\n~\tinit\tterm\tcapacity\tlength\ttime\tb\tpower\tspeed\ttoll\ttype\t;\n"
    )
    return (head + "".join(f"\t{u}\t{v}\t900.5\t{w}\t4\t0.15\t4\t0\t0\t1\t;\n" for u, v, w in rows)).encode()


def matrix_market(rows: Rows) -> bytes:
    n = max(int(end) for row in rows for end in row[:2])
    head = f"%%MatrixMarket matrix coordinate real general\n% made\n{n} {n} {len(rows)}\n"
    return head.encode() + text(rows)


def metis(rows: Rows) -> bytes:
    """The rows must name each edge in both directions."""
    n = max(int(end) for row in rows for end in row[:2])
    out = [f"{n} {len(rows) // 2} 001"]
    out += [" ".join(f"{v} {w}" for u, v, w in rows if int(u) == vertex) for vertex in range(1, n + 1)]
    return ("\n".join(out) + "\n").encode()


def galois(rows: Rows, code: str = "I") -> bytes:
    """Ids count from 0."""
    edges = sorted((int(u), int(v), w) for u, v, w in rows)
    n = 1 + max(max(u, v) for u, v, _ in edges)
    ends = [sum(u <= vertex for u, *_ in edges) for vertex in range(n)]
    value = float if code in "fd" else int
    out = struct.pack("<QQQQ", 1, struct.calcsize("<" + code), n, len(edges))
    out += struct.pack(f"<{n}Q", *ends) + struct.pack(f"<{len(edges)}I", *(v for _, v, _ in edges))
    out += b"\0" * (4 * (len(edges) % 2))
    return out + struct.pack(f"<{len(edges)}{code}", *(value(w) for *_, w in edges))


def npz(rows: Rows, layout: str = "csr") -> bytes:
    """As `scipy.sparse.save_npz` writes it; ids count from 0."""
    edges = sorted((int(u), int(v), w) for u, v, w in rows)
    n = 1 + max(max(u, v) for u, v, _ in edges)
    if layout == "csc":
        edges.sort(key=lambda edge: (edge[1], edge[0]))
    src, dst = (np.array([edge[i] for edge in edges], np.int32) for i in (0, 1))
    data = np.array(_numbers([w for *_, w in edges]))
    if layout == "coo":
        arrays = {"row": src, "col": dst}
    else:
        major, minor = (src, dst) if layout == "csr" else (dst, src)
        indptr = np.searchsorted(major, np.arange(n + 1)).astype(np.int32)
        arrays = {"indices": minor, "indptr": indptr}
    return savez(format=np.array(layout.encode()), shape=np.array([n, n]), data=data, **arrays)


def savez(**arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def _numbers(words: list[str]) -> list[int] | list[float]:
    try:
        return [int(word) for word in words]
    except ValueError:
        return [float(word) for word in words]


def table(rows: Rows) -> pa.Table:
    """Return a table with typed columns: ids are integers if all are plain digits; an empty cell is null."""
    columns = {}
    for name, words in zip(HEADER, zip(*rows, strict=True), strict=False):
        try:
            plain = all(not word or word == str(int(word)) for word in words)
            values = [int(word) if word else None for word in words] if plain else list(words)
        except ValueError:
            values = list(words)
        if name == "weight" and isinstance(values[0], str):
            values = [float(word) if word else None for word in words]
        columns[name] = values
    return pa.table(columns)


def parquet(rows: Rows) -> bytes:
    return parquet_of(table(rows))


def parquet_of(content: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(content, out)
    return out.getvalue()


def arrow_file(rows: Rows) -> bytes:
    return arrow_of(table(rows), pa.ipc.new_file)


def arrow_stream(rows: Rows) -> bytes:
    return arrow_of(table(rows), pa.ipc.new_stream)


def arrow_of(content: pa.Table, new: Callable) -> bytes:
    out = io.BytesIO()
    with new(out, content.schema) as writer:
        writer.write_table(content)
    return out.getvalue()


def zipped(data: bytes, name: str = "edges.txt", **more: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in ({name: data} | more).items():
            archive.writestr(zipfile.ZipInfo(member, (2026, 1, 1, 0, 0, 0)), content)
    return out.getvalue()


def tarred(data: bytes, name: str = "edges.txt", **more: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for member, content in ({name: data} | more).items():
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def zstd(data: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(data)
    return out.getvalue().to_pybytes()


def utf16(data: bytes, order: str = "le") -> bytes:
    mark = b"\xff\xfe" if order == "le" else b"\xfe\xff"
    return mark + data.decode().encode(f"utf-16-{order}")


#: How a file of lines can be wrapped: the suffix, and what wraps the bytes.
CONTAINERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gz": (".gz", lambda data: gzip.compress(data, mtime=0)),
    "bz2": (".bz2", bz2.compress),
    "xz": (".xz", lzma.compress),
    "zst": (".zst", zstd),
    "zip": (".zip", zipped),
    "tar": (".tar", tarred),
    "tgz": (".tar.gz", lambda data: gzip.compress(tarred(data), mtime=0)),
}

#: Formats of tables, whose ids are numbers or names: the name of the file, and the writer.
TABLES: dict[str, tuple[str, Callable[[Rows], bytes]]] = {
    "text": ("edges.txt", text),
    "tabs": ("edges.txt", lambda rows: lines(rows, "\t")),
    "csv": ("edges.csv", csv),
    "csv-bare": ("edges.csv", lambda rows: lines(rows, ",")),
    "semicolon": ("edges.csv", lambda rows: lines(rows, ";", header=True)),
    "pipe": ("edges.csv", lambda rows: lines(rows, "|", header=True)),
    "tsv": ("edges.tsv", lambda rows: lines(rows, "\t", header=True)),
    "spaced": ("edges.txt", lambda rows: lines(rows, "  ", header=True)),
    "networkx": ("edges.edgelist", networkx),
    "neo4j": ("edges.csv", neo4j),
    "graphml": ("edges.graphml", graphml),
    "parquet": ("edges.parquet", parquet),
    "arrow": ("edges.arrow", arrow_file),
    "arrow-stream": ("edges.arrows", arrow_stream),
    "csv-utf16": ("edges.csv", lambda rows: utf16(csv(rows))),
    "text-utf16be": ("edges.txt", lambda rows: utf16(text(rows), "be")),
    "csv-crlf": ("edges.csv", lambda rows: csv(rows).replace(b"\n", b"\r\n")),
    "csv-mark": ("edges.csv", lambda rows: b"\xef\xbb\xbf" + csv(rows)),
    "csv-quoted": (
        "edges.csv",
        lambda rows: lines(
            [tuple(f'"{cell}"' for cell in row) for row in [HEADER[: len(rows[0])], *rows]], ","
        ),
    ),
    **{
        f"csv-{name}": (f"edges.csv{suffix}", lambda rows, w=wrap: w(csv(rows)))
        for name, (suffix, wrap) in CONTAINERS.items()
    },
}

#: Formats that declare their vertices, with the first id of each.
DECLARED: dict[str, tuple[str, Callable[[Rows], bytes], int]] = {
    "dimacs": ("edges.gr", dimacs, 1),
    "matrix-market": ("edges.mtx", matrix_market, 1),
    "metis": ("edges.graph", metis, 1),
    "galois": ("edges.gr", galois, 0),
    "npz-csr": ("edges.npz", npz, 0),
    "npz-csc": ("edges.npz", lambda rows: npz(rows, "csc"), 0),
    "npz-coo": ("edges.npz", lambda rows: npz(rows, "coo"), 0),
}
