"""CPUs, through TVM and LLVM."""
