"""Search over the values that a mapping leaves open."""
