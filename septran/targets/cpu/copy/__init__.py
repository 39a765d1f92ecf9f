"""Copies between memories: packing, rows in pieces, transposed blocks."""
