"""The first bytes of binary formats."""

PARQUET_MAGIC = b"PAR1"
ARROW_FILE_MAGIC = b"ARROW1"
#: An Arrow stream begins with a continuation mark, then the length of its schema.
ARROW_STREAM_MAGIC = b"\xff\xff\xff\xff"
