"""Linux lets a process use AMX's tile registers once it has asked for them."""

from __future__ import annotations

import ctypes
import platform
import sys

from septran.errors import TargetError

_ARCH_PRCTL = 158
_ASK_FOR_PERMISSION, _TILE_DATA = 0x1023, 18
"""ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA (Linux, Documentation/arch/x86/xstate.rst)."""


CONFIGURE = "septran_ldtilecfg"
"""The function by which a kernel says how large the registers of a processor that has them are."""


class TilesRefusedError(TargetError):
    """The system does not let this process use tile registers."""

    code = "SEP516"


def uses_tiles(text: str) -> bool:
    """Whether a kernel, by its TensorIR's text, uses the processor's tile registers."""
    return CONFIGURE in text


def ask_for_tiles(name: str) -> None:
    """Ask for all threads of this process; raises TilesRefusedError where the system refuses.

    Asking again changes nothing.
    """
    reason = "asked of Linux on x86-64 only"
    if sys.platform == "linux" and platform.machine() == "x86_64":
        system = ctypes.CDLL(None, use_errno=True)
        if system.syscall(_ARCH_PRCTL, _ASK_FOR_PERMISSION, _TILE_DATA) == 0:
            return
        reason = f"error {ctypes.get_errno()} of arch_prctl"
    raise TilesRefusedError(
        f"{name} uses AMX's tile registers, which the system does not let this process use "
        f"({reason})",
        hint="bind avx512_vnni and avx512_bf16 instead; Linux needs to be 5.16 or later, and no "
        "thread may have an alternate signal stack too small for the registers",
    )
