"""The last stage: distances are read back and proved or refuted on the workers."""
