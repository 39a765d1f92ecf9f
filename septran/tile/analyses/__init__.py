"""Analyses of a tile program, which passes, the verifier and targets share."""
