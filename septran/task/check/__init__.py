"""What may be wrong with a task tree: races, aliases, elements that nobody writes."""
