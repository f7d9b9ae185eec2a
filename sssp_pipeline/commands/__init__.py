"""The commands of the command line, which `sssp_pipeline.cli` registers, and what they share."""
