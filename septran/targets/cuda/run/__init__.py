"""From CUDA text to what runs: compilers, the launcher, export, emulation, instrumentation."""
