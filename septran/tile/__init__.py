"""Tile IR: copies, waits, layouts and stages as visible nodes."""
