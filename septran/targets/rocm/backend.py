"""What layers below the targets know of AMD GPUs."""

from septran.backends import Backend

BACKEND = Backend("rocm")
