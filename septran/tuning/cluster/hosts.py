"""What tells one host from another, as far as a result depends on it."""

from __future__ import annotations

import functools
import platform
import sys
from dataclasses import dataclass, fields

from septran.backends import backend_of
from septran.machine.model import Machine
from septran.targets.registry import target_for
from septran.tuning.journal import code_digest, host_name


@dataclass(frozen=True)
class Host:
    """A host, or what one has to be: an empty field is any."""

    system: str = ""
    """The kind of processor and operating system, for which machine code is."""
    code: str = ""
    """The digest of the package."""
    vectors: str = ""
    """The instruction set and the compiler that makes code for it."""
    processor: str = ""
    """The model, how many cores may be used, and the GPUs beside it."""

    def suits(self, needed: Host) -> bool:
        """Whether this host is what is needed."""
        pairs = ((getattr(self, f.name), getattr(needed, f.name)) for f in fields(Host))
        return all(mine == theirs or not theirs for mine, theirs in pairs)


@functools.cache
def this_host() -> Host:
    """The host of this process."""
    system = f"{sys.platform} {platform.machine()}"
    return Host(system, code_digest(), target_for("cpu").fingerprint(), host_name())


def that_builds(machine: Machine) -> Host:
    """Where code for a machine can be made: anywhere, unless it is for the host's own vectors."""
    here = this_host()
    return Host(here.system, here.code, here.vectors if machine.arch == "native" else "")


def that_measures(machine: Machine) -> Host:
    """Where times count as taken here: a simulator's do anywhere."""
    here = this_host()
    simulated = backend_of(machine.backend).simulated
    return Host(here.system, here.code) if simulated else here
