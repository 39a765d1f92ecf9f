"""Kernels between pages that nothing may touch: a stray access ends in a fault with a name."""
