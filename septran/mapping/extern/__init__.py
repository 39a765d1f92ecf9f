"""Leaves that functions of one's own compute: how mappings name them, and what they are."""
