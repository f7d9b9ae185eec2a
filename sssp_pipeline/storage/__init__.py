"""Files in object storage and on disk: reads, atomic writes, retries, locks. Other packages never call fsspec."""
