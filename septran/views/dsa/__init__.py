"""Profiles of simulated accelerators: tables, plots, a panel, a timeline."""
