"""From TensorIR to machine code that runs: LLVM, threads, guards, instrumentation."""
