"""Extents of tiles that are rounded up where a dimension is smaller than they are."""

from __future__ import annotations


class Padded(int):
    """A tile's extent; where less of a dimension exists, a multiple of `multiple` all the same.

    What lies beyond the dimension does not exist: it is the ragged edge of a single tile.
    """

    multiple: int

    def __new__(cls, extent: int, multiple: int) -> Padded:
        """`extent`, of tiles in multiples of `multiple`."""
        made = super().__new__(cls, extent)
        made.multiple = multiple
        return made


def fitted(block: int, extent: int) -> int:
    """The extent of a tile of a dimension of `extent`: at most `block`, at least 1."""
    if isinstance(block, Padded) and extent:
        extent = -(-extent // block.multiple) * block.multiple
    return max(1, min(int(block), extent))
