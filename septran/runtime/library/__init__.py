"""Kernels as libraries for other programs, and such libraries as kernels."""
