"""The stages of a run, one module each; `run.py` alone knows their order."""
