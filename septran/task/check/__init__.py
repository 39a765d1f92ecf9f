"""Checks of a task tree: races, aliases, and reads of elements that nobody has written."""
