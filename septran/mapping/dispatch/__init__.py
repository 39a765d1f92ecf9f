"""Dispatch files, which choose among mappings by the sizes and types of a call."""
