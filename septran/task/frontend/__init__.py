"""The constructs of a logic file: definitions, launches, functions, and errors of Python."""
