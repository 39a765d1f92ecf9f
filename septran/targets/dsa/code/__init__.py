"""Vendor C, and what compiles, records and loads it."""
