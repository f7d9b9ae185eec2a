"""Tasks: an ingest that records each step when it is done, so that the next ingest goes on after a kill."""
