"""Indices, windows and tensor expressions: their nodes, their text, and their meaning in NumPy."""
