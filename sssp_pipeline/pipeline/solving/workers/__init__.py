"""The workers of a run: threads of this process or processes of a Dask cluster. One module for each kind of cluster."""
