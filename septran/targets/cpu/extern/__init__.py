"""Functions of one's own: how a kernel calls one, and how a C++ compiler makes it."""
