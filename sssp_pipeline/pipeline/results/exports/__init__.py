"""Exports: a file that holds much of a run, for other programs; each format has a module."""
