"""Kernels as a C library: header, objects, libraries, build files, and examples that check."""
