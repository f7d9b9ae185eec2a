"""The workers of a run: threads of this process or processes of a Dask cluster, and whether they can take part."""
