"""The mistakes that a call of a kernel can contain, one class each."""

from __future__ import annotations

from septran.errors import CallError


class ArgumentCountError(CallError):
    """A tensor is missing, superfluous, or passed by a name that the kernel does not have."""

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
    """An argument requires a gradient, which a kernel does not record."""

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
    """The request depends on shapes for which the kernel is not compiled yet."""

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
    """A kernel's target does not write files that build without SepTran."""

    code = "SEP614"


class NotTimedError(CallError):
    """An emulator runs the kernel, and its times say nothing about the kernel's processor."""

    code = "SEP617"


class NoGpuError(CallError):
    """There is no GPU here that torch could reach."""

    code = "SEP615"


class NotPickledError(CallError):
    """A kernel was to be pickled, which holds machine code of this process."""

    code = "SEP618"


class EditedCodeError(CallError):
    """Generated code was to be edited where it is not compiled of text, or as none can be."""

    code = "SEP619"
