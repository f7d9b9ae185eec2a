"""The folder of a run: its files, its batches, and the commits of both."""
