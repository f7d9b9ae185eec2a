"""OpenStreetMap: the roads of PBF and XML files."""
