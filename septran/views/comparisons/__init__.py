"""Mappings beside each other."""
