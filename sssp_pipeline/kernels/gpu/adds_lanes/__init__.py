"""The solver `adds-lanes`."""
