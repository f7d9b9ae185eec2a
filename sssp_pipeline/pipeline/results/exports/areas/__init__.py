"""Areas: isochrones, and the formats of maps."""
