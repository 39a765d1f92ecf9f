"""Profiles of simulated runs as data, text, and a trace."""
