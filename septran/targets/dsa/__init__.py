"""Accelerators with software-managed scratchpads: vendor C, and a simulator of them."""
