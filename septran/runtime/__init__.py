"""Kernels, the compile cache and profiles."""
