"""Loops whose times tell what a CPU can do."""
