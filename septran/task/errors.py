"""The mistakes that a logic author can make, one class each."""

from __future__ import annotations

from septran.errors import LogicError
from septran.ir.atoms import ElementRangeError
from septran.location import Location


class LeafLaunchesError(LogicError):
    """A leaf task launches, partitions or loops over another task."""

    code = "SEP101"


class CompositeTouchesDataError(LogicError):
    """A composite task reads or writes elements itself."""

    code = "SEP102"


class ReadOnlyError(LogicError):
    """A tensor declared as input is written."""

    code = "SEP103"


class RaceError(LogicError):
    """Two iterations of a parallel loop touch the same element, and one writes it."""

    code = "SEP104"


class ShapeError(LogicError):
    """Shapes do not fit a primitive, an expression, a launch or an annotation."""

    code = "SEP105"


class DtypeError(LogicError):
    """Dtypes do not fit."""

    code = "SEP106"


class SymbolicValueError(LogicError):
    """A value known only when the kernel runs is used where Python needs one now."""

    code = "SEP107"


class UnknownPrimitiveError(LogicError):
    """No primitive has that name, or it does not take that attribute."""

    code = "SEP108"


class EscapeError(LogicError):
    """A tensor is used outside of the task it belongs to."""

    code = "SEP109"


class EndlessRecursionError(LogicError):
    """Tasks launch each other without reaching a leaf."""

    code = "SEP110"


class LaunchArgumentsError(LogicError):
    """A launch has too many, too few or unsuitable arguments."""

    code = "SEP111"


class IndexingError(LogicError):
    """A tensor or partition is indexed in a way that has no meaning."""

    code = "SEP112"


class IndirectIndexError(LogicError):
    """A tensor cannot be what rows are chosen by, or be gathered from."""

    code = "SEP129"


class IndexRangeError(LogicError):
    """An element of a tensor of indices is none of the tensor that it is to index."""

    code = "SEP130"

    @classmethod
    def of(cls, found: ElementRangeError, where: Location | None) -> IndexRangeError:
        """What was found, at the line that reads it."""
        return cls(
            str(found), where,
            hint="indices count from 0. A kernel reads the nearest row in its place, never beyond; "
            "where a place has no row, let a mask leave out what was read (task.where)",
        )  # fmt: skip


class CountRangeError(LogicError):
    """An element of a tensor says a number of iterations that is negative or above its bound."""

    code = "SEP131"

    @classmethod
    def of(cls, found: ElementRangeError, where: Location | None) -> CountRangeError:
        """What was found, at the loop that counts by it."""
        return cls(
            f"{found.found}, and counts 0 to {found.last} iterations", where,
            hint="the bound is what task.count(.., most=..) says. A kernel takes the nearest "
            "number in its place",
        )  # fmt: skip


class PartitionError(LogicError):
    """A partition's block shape does not fit its tensor."""

    code = "SEP113"


class TunableError(LogicError):
    """A tunable has no value, or an unsuitable one."""

    code = "SEP114"


class UnknownTaskError(LogicError):
    """No task or variant has that name."""

    code = "SEP115"


class NotInTaskError(LogicError):
    """A construct of the language is used outside of a task that is being traced."""

    code = "SEP116"


class InferenceError(LogicError):
    """The shape of an output cannot be inferred from the inputs."""

    code = "SEP117"


class LoadError(LogicError):
    """A logic file cannot be loaded, or has no entry task."""

    code = "SEP118"


class SizeMismatchError(LogicError):
    """Two tensors give different extents to one named dimension."""

    code = "SEP119"


class ViewError(LogicError):
    """A reshape or window would need a copy, or does not fit its tensor."""

    code = "SEP120"


class AliasError(LogicError):
    """A launch passes the same elements twice, and they are written."""

    code = "SEP121"


class EarlyExitError(LogicError):
    """A loop over launches is left by break or return, or a body that runs on a condition."""

    code = "SEP122"


class PythonError(LogicError):
    """Python itself refuses what a task's body does."""

    code = "SEP123"


class UnknownConstructError(LogicError, AttributeError):
    """The language, a task or a tensor has no attribute of that name."""

    code = "SEP124"


class TaskFunctionError(LogicError):
    """A task's function yields, awaits or returns something, or is no function."""

    code = "SEP125"


class NothingWrittenError(LogicError):
    """A logic, or a leaf task in it, writes none of its tensors, so that it has no result."""

    code = "SEP126"


class UnmetDemandError(LogicError):
    """Sizes or flags do not meet a demand that the logic states by `task.require`."""

    code = "SEP128"


class ScanError(LogicError):
    """The function of a scan does not join what is scanned, or is not associative."""

    code = "SEP134"


class UnwrittenElementError(LogicError):
    """An element of a temporary is read, and nobody has written it."""

    code = "SEP127"
