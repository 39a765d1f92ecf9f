"""Passes about copies: which there are, of which regions, and by which engine."""
