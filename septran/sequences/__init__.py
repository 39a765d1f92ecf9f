"""Operators one after another as one program: `sequence` makes the composite that launches them.

A composite that launches operators is an operator like any other, so that nothing else knows of
sequences. What an author would have to write by hand is the plumbing: shape and type of each tensor
between two operators (`composite`), and the dimensions that the operators' own names mean together
(`dims`).
"""
