"""Runs from Python: they are started, and a finished one is read."""
