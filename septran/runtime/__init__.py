"""Running kernels: calls with NumPy or torch, the compile cache, profiles, archives."""
