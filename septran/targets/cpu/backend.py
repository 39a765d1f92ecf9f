"""What layers below the targets know of CPUs."""

from septran.backends import Backend

BACKEND = Backend("cpu")
