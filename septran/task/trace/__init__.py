"""Tracing: a logic runs once on symbolic tensors, which records its task tree."""
