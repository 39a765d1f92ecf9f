"""Products on a tile: microkernels, their loops, what they prefetch, and how results reach C."""
