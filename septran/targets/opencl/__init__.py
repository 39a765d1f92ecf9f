"""The OpenCL target: tile programs as kernels in OpenCL C, for any vendor's driver."""
