"""The facts about TPUs that layers below the targets need."""

from __future__ import annotations

from septran.backends import Backend

BACKEND = Backend("tpu")
