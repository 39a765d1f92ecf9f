"""Loops whose times show what a CPU can do."""
