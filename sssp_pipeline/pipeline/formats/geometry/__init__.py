"""Geometry: the lines of GeoParquet and GeoPackage, and lengths on the globe."""
