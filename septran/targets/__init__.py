"""TileProgram to TensorIR to source to module, one folder a target."""
