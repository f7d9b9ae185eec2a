"""Tables: CSV, the CSV of Neo4j, and the typed columns of Parquet and Arrow; Arrow reads all of them."""
