"""HIP text: its prelude."""
