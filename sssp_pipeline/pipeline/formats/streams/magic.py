"""The first bytes of binary formats."""

PARQUET_MAGIC = b"PAR1"
ARROW_FILE_MAGIC = b"ARROW1"
#: An Arrow stream begins with a continuation mark, then the length of its schema.
ARROW_STREAM_MAGIC = b"\xff\xff\xff\xff"
#: A PBF file of OpenStreetMap has these bytes after the four bytes of a length.
_OSM_PBF_MAGIC = b"\n\tOSMHeader"


def is_osm_pbf(head: bytes) -> bool:
    """Return whether `head` is the beginning of a PBF file of OpenStreetMap."""
    return head[4:].startswith(_OSM_PBF_MAGIC)
