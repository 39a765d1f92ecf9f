"""One file a pass; `PASSES` is the order."""
