"""What a solver is: options, solutions, metrics, forecasts, and what it keeps of a row."""
