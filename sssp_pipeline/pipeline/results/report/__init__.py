"""The report of a run: `report.html`, one page without scripts that shows run.json, the metrics and some distances."""
