"""Memory between guard pages: a stray access ends in a fault that is reported by name.

Each region has its own pages, with reserved address space at both ends, as far as a wrong index is
likely to go. It begins where the reserved space ends, or ends where it begins; both are tried, one
after the other.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

REACH = 1 << 26
"""The number of reserved bytes on either side; they take no memory."""
UNUSED = 0xA5
"""The value of the bytes in a region's pages that are not the region's."""
_PAGE = mmap.PAGESIZE
_NONE, _READ_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
_FAILED = ctypes.c_void_p(-1).value


@dataclass(frozen=True)
class GuardedRegion:
    """A region in use."""

    name: str
    start: int
    size: int
    pages: tuple[int, int]
    """The start and end of its pages."""

    def fault_text(self, address: int, access: str) -> str | None:
        """Return the sentence on a fault at `address`; None where it belongs to another region."""
        low, high = self.pages
        if not low - REACH <= address < high + REACH:
            return None
        end = self.start + self.size
        if address < self.start:
            return f"{self.name} was {access} {self.start - address} bytes before its start"
        return f"{self.name} was {access} behind its end, from byte {address - end} on"

    def rest(self) -> tuple[bytes, bytes]:
        """Return the bytes of its pages before and behind it."""
        low, high = self.pages
        end = self.start + self.size
        return ctypes.string_at(low, self.start - low), ctypes.string_at(end, high - end)

    def touched(self) -> str | None:
        """Return a sentence on bytes of its pages that were written; None where none were."""
        for bytes_, where in zip(self.rest(), ("before", "behind"), strict=True):
            if bytes_.strip(bytes([UNUSED])):
                return f"memory {where} {self.name} was written to"
        return None


@dataclass
class Pages:
    """All regions of one run."""

    at_end: bool
    """Whether regions end with their pages; else they begin with them."""
    places: list[GuardedRegion] = field(default_factory=list)

    def place(self, name: str, size: int, alignment: int) -> GuardedRegion:
        """Return a new region at a multiple of `alignment` bytes; raises MemoryError."""
        room = -(-max(1, size) // _PAGE) * _PAGE
        base = _libc().mmap(None, room + 2 * REACH, _NONE, _PRIVATE, -1, 0)
        low = base + REACH
        if base == _FAILED or _libc().mprotect(low, room, _READ_WRITE):
            raise MemoryError(f"no room for {name} between guard pages")
        ctypes.memset(low, UNUSED, room)
        # Rounding down leaves less than `alignment` bytes before the guard page, where writes are
        # seen by `touched`, and reads are not seen.
        start = (low + room - size) // alignment * alignment if self.at_end else low
        place = GuardedRegion(name, start, size, (low, low + room))
        self.places.append(place)
        return place

    def fault_text(self, address: int, write: bool) -> str:
        """Return the sentence on a fault at an address."""
        access = "written" if write else "read"
        found = (place.fault_text(address, access) for place in self.places)
        return next(filter(None, found), f"memory at {address:#x} was {access}")

    def free(self) -> None:
        """Free all regions."""
        for place in self.places:
            low, high = place.pages
            _libc().munmap(low - REACH, high - low + 2 * REACH)
        self.places.clear()


class _Action(ctypes.Structure):
    """``struct sigaction`` of Linux's C library on 64-bit machines (sigaction(2))."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_SIGINFO = 4
"""``SA_SIGINFO``: the handler receives the address."""
_ADDRESS = 16
"""The offset of ``si_addr`` in ``siginfo_t`` (<bits/types/siginfo_t.h>)."""
_ERROR = 40 + 8 * 19
"""The offset of ``uc_mcontext.gregs[REG_ERR]`` in ``ucontext_t`` (<sys/ucontext.h>, x86-64).

Bit 1 of the page fault's error code says that it was a write (Intel SDM vol. 3, 4.7).
"""


def on_fault(report: Callable[[int, bool], None]) -> Any:
    """Call `report` with the address of each fault, and whether it was a write; keep the result.

    `report` must not return: the instruction would only be tried again.
    """

    def handler(_number: int, info: int, context: int) -> None:
        address = ctypes.c_uint64.from_address(info + _ADDRESS).value
        error = ctypes.c_uint64.from_address(context + _ERROR).value
        report(address, bool(error & 2))

    kept = _HANDLER(handler)
    action = _Action(handler=ctypes.cast(kept, ctypes.c_void_p).value, flags=_SIGINFO)
    for number in (signal.SIGSEGV, signal.SIGBUS):
        if _libc().sigaction(int(number), ctypes.byref(action), None):
            raise OSError("faults cannot be handled here")
    return kept


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    )  # fmt: skip
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc
