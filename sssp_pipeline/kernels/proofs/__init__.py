"""Proofs that distances are exact; no solver takes part in them."""
