"""The interpreter of tile programs, and what the verifier runs on, too: steps and channels."""
