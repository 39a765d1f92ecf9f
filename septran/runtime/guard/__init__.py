"""Kernels between guard pages: a stray access ends in a fault that is reported by name."""
