"""The mistakes that a call of a kernel can contain, one class each."""

from __future__ import annotations

from septran.errors import CallError


class ArgumentCountError(CallError):
    """A tensor is missing, too many, or named as nothing the kernel has."""

    code = "SEP601"


class NotATensorError(CallError):
    """An argument is neither a NumPy array nor a torch tensor, or they are mixed."""

    code = "SEP602"


class ArgumentDtypeError(CallError):
    """An argument has an element type that the kernel does not take."""

    code = "SEP603"


class ArgumentShapeError(CallError):
    """An argument has the wrong number of dimensions, or extents that do not agree."""

    code = "SEP604"


class DeviceError(CallError):
    """An argument is not in memory that the kernel can reach."""

    code = "SEP605"


class GradientError(CallError):
    """An argument wants a gradient, which a kernel would silently lose."""

    code = "SEP606"


class OverlapError(CallError):
    """An output shares memory with another argument, or with itself."""

    code = "SEP607"


class ReadOnlyOutputError(CallError):
    """An output cannot be written to."""

    code = "SEP608"


class ScalarError(CallError):
    """A scalar is missing, unknown, or does not fit its type."""

    code = "SEP609"


class NotSpecialisedError(CallError):
    """What was asked for depends on shapes that the kernel has not seen yet."""

    code = "SEP610"


class ArchiveError(CallError):
    """A saved kernel is damaged, or was made for another kind of machine."""

    code = "SEP611"


class NoLogicError(CallError):
    """A loaded kernel has no logic, which this needs."""

    code = "SEP612"


class NothingToProfileError(CallError):
    """A call that launches nothing, as its tensors are empty, has no run to profile."""

    code = "SEP613"


class NotExportableError(CallError):
    """A kernel's target does not write source for others to build."""

    code = "SEP614"


class NotTimedError(CallError):
    """An emulator runs the kernel, whose times say nothing of its own processor."""

    code = "SEP617"


class NoGpuError(CallError):
    """There is no GPU here that torch could reach."""

    code = "SEP615"
