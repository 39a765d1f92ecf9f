"""Trust in vendors' headers, which are compiled and run: SepTran's own and the user's.

A header is C, and a library that was compiled with it can run code of it as soon as it is loaded.
Where a header is not trusted nothing of it is compiled: LLVM records the kernel's commands.
Trust is in a content, not in a place: a copy of a trusted header is trusted, and one that was
edited, or whose included files were, is not.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from septran.errors import TargetError
from septran.machine.loader import load_machine, mappings_root
from septran.machine.model import Machine
from septran.targets.dsa.code.header_files import HeaderFiles
from septran.targets.dsa.code.toolchain import compiler
from septran.targets.dsa.code.vendor import ASCEND_HEADER, Vendor, VendorError
from septran.tile.nodes import Remark
from septran.user_folder import unsafe, user_folder

VARIABLE = "SEPTRAN_DSA_TRUST"
"""Digests of headers that are trusted in this process, or ``all``."""
FOLDER = "trusted"
"""In the user's own folder: a file for each trusted content, of the digest's name."""


class TrustError(TargetError):
    """There is no header to trust, or no folder of the user's own to remember it in."""

    code = "SEP546"


def trust(machine: str | Path | Machine) -> str:
    """Let a machine's header be compiled, and run in this process, from now on.

    Holds for what the header and the files that it includes contain now, on this account, until
    ``trusted/<digest>`` in the folder of the compile cache is deleted.

    Returns:
        The digest of the content, as ``SEPTRAN_DSA_TRUST`` takes it.

    Raises:
        SepTranError: where the machine has no header, or nothing can be kept.
    """
    loaded = load_machine(machine)
    if loaded.backend != "dsa":
        message = f"{loaded.name} is no DSA: it has no vendor's header, and nothing to trust"
        raise TrustError(message, loaded.location)
    header = Vendor(loaded).header_files
    folder = user_folder() / FOLDER
    problem = unsafe(folder.parent) or unsafe(folder)
    if problem is None:
        try:
            (folder / header.digest).write_text(f"{header.path}\n", encoding="utf-8")
        except OSError as error:
            problem = error.strerror or str(error)
    if problem is not None:
        raise TrustError(
            f"nothing can be remembered in {folder}: {problem}",
            hint=f"set {VARIABLE}={header.digest}",
        )
    return header.digest


def is_trusted(header: HeaderFiles) -> bool:
    """Whether a header may be compiled and run."""
    given = os.environ.get(VARIABLE, "").replace(",", " ").split()
    if header.digest in given or "all" in given or header.digest in _shipped():
        return True
    folder = user_folder() / FOLDER
    if not (folder / header.digest).is_file():
        return False
    # Where others can write, the file may be of anybody.
    return unsafe(folder.parent) is None and unsafe(folder) is None


def untrusted(machine: Machine) -> HeaderFiles | None:
    """The header of a machine, where it is not trusted; None where there is nothing to ask."""
    if machine.backend != "dsa":
        return None
    try:
        header = Vendor(machine).header_files
    except (VendorError, OSError):
        return None  # said where the header is needed
    return None if is_trusted(header) else header


def advice(machine: Machine) -> str:
    """The command that trusts a machine's header."""
    return f"septran trust {machine.location.file if machine.location else machine.name}"


def remarks(machine: Machine) -> tuple[Remark, ...]:
    """The remark that a header was not compiled because it is not trusted."""
    header = untrusted(machine) if compiler() is not None else None
    if header is None:
        return ()
    message = (
        f"nothing of the header {header.path.name} was compiled, as it neither comes with SepTran "
        "nor is trusted: LLVM recorded the commands, and whether the header agrees with the "
        "machine file was not checked"
    )
    where = Vendor(machine).where("header")
    return (Remark("unchecked", header.path.name, message, advice(machine), where),)


@functools.cache
def _shipped() -> frozenset[str]:
    """Digests of the headers that come with SepTran."""
    folder = mappings_root() / "machines"
    paths = [*folder.glob("*.h"), ASCEND_HEADER]
    return frozenset(HeaderFiles.of(path).digest for path in paths)
