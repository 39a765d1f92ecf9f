"""Stages, movements and remarks as text and plain data."""
