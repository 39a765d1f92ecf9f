"""Whole models whose operations are kernels, beside torch and onnxruntime."""
