"""What layers below the targets know of NVIDIA GPUs."""

from septran.backends import Backend

BACKEND = Backend(
    "cuda",
    device="cuda",
    keys=frozenset({"persistent", "cluster", "raster", "overlap", "pingpong"}),
    banked=True,
)
