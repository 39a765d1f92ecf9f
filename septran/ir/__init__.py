"""Indices, windows and expressions: what they are, how they print, and what they mean in NumPy."""
