"""The solver `adds`."""
