"""Stages, kernels and explanations as static HTML."""
