"""The verifier: whether a tile program keeps the rules of Tile IR."""
