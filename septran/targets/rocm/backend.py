"""The facts about AMD GPUs that layers below the targets need."""

from septran.backends import Backend

BACKEND = Backend("rocm")
