"""Calls like those before, which go straight from Python to the compiled function."""
