"""Passes about copies: which there are, of what, and by which engine."""
