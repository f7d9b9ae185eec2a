"""The second stage: which sources and targets, which batches, which solver."""
