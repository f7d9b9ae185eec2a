"""Files in object storage and on disk: reads, atomic commits, retries, locks. Nothing else touches storage."""
