"""Tools for programs that write mappings: a server by the Model Context Protocol."""
