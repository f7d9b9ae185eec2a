"""Workers: the steps of an ingest as tasks on the workers of a cluster."""
