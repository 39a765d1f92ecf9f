"""The CUDA target: tile programs as kernels for NVIDIA GPUs."""
