"""OpenCL C as text: what TensorIR is called there, and the functions in front."""
