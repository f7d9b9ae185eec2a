"""The third stage: batches become tasks, tasks go to workers, and what they solve is committed."""
