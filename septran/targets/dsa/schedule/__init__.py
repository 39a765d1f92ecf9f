"""The cycles of a DSA's control program, worked out without running it."""
