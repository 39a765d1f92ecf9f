"""Mapping files: reading them, and resolving one against a logic and a machine."""
