"""The mistakes in a machine file, one class each."""

from __future__ import annotations

from septran.errors import MachineError
from septran.machine.kinds import Family


class MachineSyntaxError(MachineError):
    """A machine file is not the YAML that SepTran reads."""

    code = "SEP201"


class NoMachineError(MachineError):
    """There is no machine file of that name."""

    code = "SEP202"


class UnknownMachineKeyError(MachineError):
    """A key that machine files do not have."""

    code = "SEP203"


class MissingMachineKeyError(MachineError):
    """A key that a machine needs is not there."""

    code = "SEP204"


class WrongMachineValueError(MachineError):
    """A value of the wrong kind."""

    code = "SEP205"


class UnknownPartError(MachineError):
    """A processor, memory or instruction that the machine does not have."""

    code = "SEP206"


FAMILY = Family(
    UnknownMachineKeyError, MissingMachineKeyError, WrongMachineValueError, UnknownPartError
)
