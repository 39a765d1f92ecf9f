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
    """A key is unknown in machine files."""

    code = "SEP203"


class MissingMachineKeyError(MachineError):
    """A key that machine files require is missing."""

    code = "SEP204"


class WrongMachineValueError(MachineError):
    """A value of the wrong kind."""

    code = "SEP205"


class UnknownPartError(MachineError):
    """A name is no processor, memory or instruction of the machine."""

    code = "SEP206"


FAMILY = Family(
    UnknownMachineKeyError, MissingMachineKeyError, WrongMachineValueError, UnknownPartError
)
