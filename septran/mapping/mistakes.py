"""The mistakes in a mapping, alone or for a logic, one class each."""

from __future__ import annotations

from septran.errors import CapacityRefusal, MappingError
from septran.machine.kinds import Family


class MappingSyntaxError(MappingError):
    """A mapping file is not the YAML that SepTran reads."""

    code = "SEP301"


class NoMappingError(MappingError):
    """There is no mapping of that name, or its file cannot be read."""

    code = "SEP302"


class UnknownKeyError(MappingError):
    """A key is unknown in mapping files."""

    code = "SEP303"


class MissingKeyError(MappingError):
    """A required key is missing."""

    code = "SEP304"


class WrongValueError(MappingError):
    """A value of the wrong kind."""

    code = "SEP305"


class UnknownNameError(MappingError):
    """A name is no processor, memory, instruction or engine of the machine."""

    code = "SEP306"


class ExtendsError(MappingError):
    """`extends` names a file that is outside, missing, or extends this one in turn."""

    code = "SEP307"


class UnknownInstanceError(MappingError):
    """`entrypoint` or `calls` names an instance that the mapping does not have."""

    code = "SEP308"


class LateRuleError(MappingError):
    """A rule would decide by a task's body what must be known before it is traced."""

    code = "SEP309"


class ConditionError(MappingError):
    """A condition or constraint cannot be read or evaluated."""

    code = "SEP310"


class TuneError(MappingError):
    """A `!tune` does not describe a search."""

    code = "SEP311"


class TuneLeftError(MappingError):
    """A `!tune` is left in a mapping that is to be compiled as it is."""

    code = "SEP312"


class TunableSettingError(MappingError):
    """A tunable has no value, or one of the wrong kind."""

    code = "SEP313"


class WrongEntryError(MappingError):
    """The entry point maps another task than the logic's."""

    code = "SEP314"


class NeverLaunchedError(MappingError):
    """`calls` or `leaf_task_bindings` names a task that is not launched there."""

    code = "SEP315"


class AmbiguousInstanceError(MappingError):
    """Several instances map a launched task, and nothing says which is meant."""

    code = "SEP316"


class UnknownTensorError(MappingError):
    """`mems`, `layouts` or `copy` names a tensor that the task does not have."""

    code = "SEP317"


class NestingError(MappingError):
    """A task would run on a level outside its caller's."""

    code = "SEP318"


class NotVisibleError(MappingError):
    """A processor does not see a memory that it is to use."""

    code = "SEP319"


class MappedCapacityError(CapacityRefusal, MappingError):
    """The tensors that a memory holds at one time exceed its capacity."""

    code = "SEP320"


class NoBindingError(MappingError):
    """No instruction accepts a leaf's operands."""

    code = "SEP321"


class UnknownVariantError(MappingError):
    """The task has no variant of that name."""

    code = "SEP322"


class NoParallelLoopError(MappingError):
    """What is launched in no parallel loop would run on the host, which cannot."""

    code = "SEP323"


class UnreachableCaseError(MappingError):
    """A case of a dispatch file can never be taken."""

    code = "SEP324"


class CaseMachinesError(MappingError):
    """The cases of a dispatch file are for different machines."""

    code = "SEP325"


class OpenDispatchError(MappingError):
    """A dispatch file is given where one mapping is needed, before sizes and types are known."""

    code = "SEP326"


FAMILY = Family(UnknownKeyError, MissingKeyError, WrongValueError, UnknownNameError)
