"""What layers below the targets know of accelerators with scratchpads."""

from septran.backends import Backend

BACKEND = Backend("dsa", keys=frozenset({"persistent"}), simulated=True)
