"""TileLang: the tile program as a program of another tile language."""
