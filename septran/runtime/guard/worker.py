"""Run kernels between guard pages: ``python -m septran.runtime.guard.worker``.

Reads one JSON request a line and answers each with one line: what a kernel touched that it
must not, if anything. After a fault the process is at its end, and has said so before.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from septran.dtypes import POISON, numpy_dtype
from septran.runtime.arrays import NUMPY
from septran.runtime.guard.pages import GuardedRegion, Pages, on_fault
from septran.targets.base import GuardedCode, Guarding, Room
from septran.targets.registry import guarding_for
from septran.torch_when_needed import import_torch_when_needed

ALIGNMENT = 64
"""The alignment of scratch buffers, which TVM promises to LLVM."""
_GIVE = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_int, ctypes.c_int
)
_TAKE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


@dataclass
class Rooms:
    """The scratch buffers of a run: one of each for each thread, fresh whenever it is requested."""

    rooms: Mapping[int, Room]
    """The rooms by the size that the code requests."""
    pages: Pages
    places: dict[tuple[int, int], GuardedRegion] = field(default_factory=dict)

    def give(self, _type: int, _device: int, requested: int, _code: int, _bits: int) -> int:
        """Return the address of a room full of poison."""
        key = requested, threading.get_native_id()
        if key not in self.places:
            room = self.rooms[requested]
            self.places[key] = self.pages.place(room.name, room.size, ALIGNMENT)
        place = self.places[key]
        ctypes.memset(place.start, POISON, place.size)
        return place.start


def main() -> None:
    """Answer requests until there are no more."""
    import_torch_when_needed()
    # What kernels and libraries print must not come between the answers.
    answers = os.dup(1)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    pages = Pages(at_end=True)

    def answer(touched: str | None, output: Mapping[str, str] | None = None) -> None:
        line = json.dumps({"touched": touched, **(output or {})})
        os.write(answers, line.encode() + b"\n")

    def fault(address: int, write: bool) -> None:
        answer(pages.fault_text(address, write))
        os._exit(1)

    for line in sys.stdin:
        try:
            request = json.loads(line)
            target = guarding_for(request["backend"])
            kept = on_fault(fault)  # once the target is loaded: TVM would handle faults, too
            answer(run(target, request, pages))
            del kept
        except Exception as error:
            answer(f"{type(error).__name__}: {error}")


def run(target: Guarding, request: Mapping[str, Any], pages: Pages) -> str | None:
    """Run a kernel with each end of its buffers at guard pages; return stray writes beside them.

    Tensors are files, and their contents after the run are written beside those.
    """
    folder, rooms = Path(request["folder"]), tuple(Room(*room) for room in request["rooms"])
    text = (folder / "module.json").read_text("utf-8")
    held = Rooms({room.requested: room for room in rooms}, pages)
    give, take = _GIVE(held.give), _TAKE(lambda _type, _device, _address: 0)
    library = (folder / "functions.so").read_bytes()
    code = GuardedCode(request["name"], request["arch"], text, rooms, library)
    function = target.compile_guarded(code, _address(give), _address(take))
    for pages.at_end in (True, False):
        placed = [_placed(folder / str(n), t, pages) for n, t in enumerate(request["tensors"])]
        function(*(array for _, array in placed), *request["scalars"])
        side = "end" if pages.at_end else "start"
        for number, (place, _) in enumerate(placed):
            result = ctypes.string_at(place.start, place.size)
            (folder / f"{number}.{side}").write_bytes(result)
        touched = next(filter(None, (place.touched() for place in pages.places)), None)
        held.places.clear()
        pages.free()
        if touched:
            return touched
    return None


def _placed(file: Path, tensor: Mapping[str, Any], pages: Pages) -> tuple[GuardedRegion, Any]:
    """Return a tensor between guard pages, and the array to pass on."""
    content = file.read_bytes()
    place = pages.place(tensor["name"], len(content), 1)
    ctypes.memmove(place.start, content, len(content))
    raw = (ctypes.c_ubyte * len(content)).from_address(place.start)
    flat = np.frombuffer(memoryview(raw), numpy_dtype(tensor["dtype"]))
    return place, NUMPY.passed(flat.reshape(tensor["shape"]))


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


if __name__ == "__main__":
    main()
