"""Tasks: an ingest whose steps are noted when they are done, so that the next one goes on after a kill."""
