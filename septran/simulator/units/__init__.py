"""The effects of commands on bytes: the matrix unit, the vector unit, copies."""
