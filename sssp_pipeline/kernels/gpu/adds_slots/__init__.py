"""The solver `adds-slots`."""
