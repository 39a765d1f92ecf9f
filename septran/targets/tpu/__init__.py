"""Pallas kernels for TPUs, as Python modules that JAX compiles, or interprets on a CPU."""
