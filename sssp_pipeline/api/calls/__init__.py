"""Calls: the sources of one graph in memory are solved on all cores or on the GPU, or summed along paths."""
