"""Copies by the lanes of a block."""
