"""Fragments: how registers hold tiles, and what is computed on them."""
