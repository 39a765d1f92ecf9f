"""Kernels on a device that OpenCL's loader finds."""
