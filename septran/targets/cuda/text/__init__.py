"""CUDA text: its prelude, its names, PTX, and the printer."""
