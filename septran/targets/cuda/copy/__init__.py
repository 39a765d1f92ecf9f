"""Copies: through registers, by cp.async, by TMA, gathered, and results on their way out."""
