"""What commands do to bytes: the matrix unit, the vector unit, copies."""
