"""The signature of a kernel, before and after specialising."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from septran.runtime.errors import EditedCodeError
from septran.runtime.roofline import Roofline
from septran.runtime.stages import EditedStages, Stages
from septran.targets.base import Editable
from septran.task.tree import Param, ScalarParam


@dataclass(frozen=True)
class TensorParam:
    """A tensor of the entry task, with the properties that are known."""

    name: str
    reads: bool = True
    """Whether its initial content matters."""
    writes: bool = False
    """Whether it is an output."""
    dims: tuple[str, ...] | None = None
    """The names of its dimensions; None where the logic does not annotate them.

    A number (``"3"``) is a fixed extent, an empty name one of any size.
    """
    dtype: str | None = None
    """The element type; None for any."""
    shape: tuple[int, ...] | None = None
    """The extents; None for any."""
    places: int | None = None
    """Of a tensor of indices: each is at least 0 and less than this."""
    span: tuple[int, int] | None = None
    """Of an integer that a call tells, the least and the greatest that it may be."""
    told: tuple[str, ...] = ()
    """For each extent the dimension of which every call tells it, empty where it is fixed."""

    @staticmethod
    def of(param: Param) -> TensorParam:
        """Return a traced parameter, of which everything is known."""
        return TensorParam(
            param.name, param.reads, param.writes, param.dims or None, param.dtype, param.shape,
            param.places, param.span,
        )  # fmt: skip


@dataclass(frozen=True)
class Signature:
    """The entry task's parameters in their order."""

    name: str
    """The kernel's name, for messages."""
    tensors: tuple[TensorParam, ...]
    scalars: tuple[ScalarParam, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    """The extents of named dimensions that are fixed."""
    static: tuple[str, ...] = ()
    """The logic's static flags, which a compilation fixes, so that no call passes them."""

    @property
    def inputs(self) -> tuple[TensorParam, ...]:
        """The tensors that a call passes by position: those that are only read."""
        return tuple(t for t in self.tensors if not t.writes)

    @property
    def outputs(self) -> tuple[TensorParam, ...]:
        """The tensors that a call returns: those that are written."""
        return tuple(t for t in self.tensors if t.writes)

    def tensor(self, name: str) -> TensorParam:
        """Return the tensor of that name; raises KeyError where there is none."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(name)

    def __str__(self) -> str:
        inputs = [_described(t) for t in self.inputs]
        scalars = [
            f"{s.name}: {s.dtype}" + ("" if s.default is None else f" = {s.default}")
            for s in self.scalars
        ]
        star = ["*"] if scalars else []
        outputs = ", ".join(_described(t) for t in self.outputs)
        return f"{self.name}({', '.join([*inputs, *star, *scalars])}) -> {outputs}"


class UseMark:
    """A mark of use since the last examination (the bit of the clock algorithm)."""

    __slots__ = ("_byte",)

    def __init__(self) -> None:
        self._byte = ctypes.c_uint8()

    @property
    def recent(self) -> bool:
        """Whether it was used."""
        return bool(self._byte.value)

    @recent.setter
    def recent(self, used: bool) -> None:
        self._byte.value = used

    @property
    def address(self) -> int:
        """Where it is, for calls that compiled code makes."""
        return ctypes.addressof(self._byte)


@dataclass(frozen=True)
class Specialisation:
    """A kernel for given shapes and dtypes; it is built when first run."""

    tensors: tuple[TensorParam, ...]
    """All tensors in order, with shape and dtype."""
    scalars: tuple[ScalarParam, ...]
    stages: Stages
    saved_limits: Roofline | None = None
    """The roofline of a loaded kernel, which has no task tree to count in."""
    use: UseMark = field(default_factory=UseMark, repr=False, compare=False)
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The least and greatest extents of dimensions for which its code can be called as it is.

    Those that it has no entry for are exact.
    """

    @property
    def limits(self) -> Roofline:
        """The work of a call and the peak rates of the machine."""
        return self.saved_limits or Roofline.of(self.stages)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The extents of every tensor."""
        return {t.name: t.shape or () for t in self.tensors}

    @property
    def dtypes(self) -> dict[str, str]:
        """The element types of every tensor."""
        return {t.name: t.dtype or "" for t in self.tensors}

    @staticmethod
    def of(stages: Stages) -> Specialisation:
        """Return the specialisation of one compilation's stages; only the task tree is made."""
        tree = stages.task_tree
        tensors = tuple(TensorParam.of(p) for p in tree.root.params)
        return Specialisation(tensors, tree.scalars, stages)

    def accepts(self, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str]) -> bool:
        """Return whether it is for tensors of these shapes and dtypes (of those that are named)."""
        return all(
            shapes.get(t.name, t.shape) == t.shape and dtypes.get(t.name, t.dtype) == t.dtype
            for t in self.tensors
        )


def edited(name: str, found: Specialisation, text: str) -> Specialisation:
    """Return a compilation with its generated code edited; raises EditedCodeError."""
    executable = found.stages.executable
    if not isinstance(executable, Editable):
        raise EditedCodeError(
            f"the code of {name} is not compiled of its text",
            hint="that of a DSA is, and with septran.compile(..., emulate=True) a GPU's",
        )
    stages = EditedStages(found.stages, executable.with_text(text))
    return replace(found, stages=stages, use=UseMark())


def only_for(
    name: str,
    found: Specialisation,
    shapes: Mapping[str, tuple[int, ...]],
    dtypes: Mapping[str, str],
) -> Specialisation:
    """Return the compilation where it is for these tensors; raises EditedCodeError."""
    if found.accepts(shapes, dtypes):
        return found
    known = ", ".join(f"{t.name}: {t.dtype}{list(t.shape or ())}" for t in found.tensors)
    raise EditedCodeError(
        f"the code of {name} was edited for {known}",
        hint="pass such tensors, or edit the code of another compilation",
    )


def _described(tensor: TensorParam) -> str:
    if tensor.span is not None:
        return f"{tensor.name}: {tensor.span[0]}..{tensor.span[1]}"
    extents = tensor.shape if tensor.dims is None else tensor.dims
    shape = "" if extents is None else f"[{', '.join(str(e) or '_' for e in extents)}]"
    dtype = "" if tensor.dtype is None else f" {tensor.dtype}"
    text = f"{shape}{dtype}".strip()
    return f"{tensor.name}: {text}" if text else tensor.name
