"""The lowering from nodes to TensorIR that targets share; a target adds what differs."""
