"""What targets share on the way from nodes to TensorIR; a target says only what differs."""
