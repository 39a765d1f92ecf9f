"""Tensor expressions on tiles: rows and columns of vectors, fused and narrowed."""
