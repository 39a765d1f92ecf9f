"""Operations of Python's numbers and lists that a tensor of a task does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from septran.location import Location
from septran.task.errors import IndexingError, ShapeError, SymbolicValueError, UnknownConstructError
from septran.task.frontend.python_errors import unknown_attribute


class Refusals:
    """Raises, for each such operation, an error at its line that says what to write instead."""

    __slots__ = ()

    if not TYPE_CHECKING:  # else every attribute would be there for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            """Raise UnknownConstructError; Python calls it only for attributes that are missing."""
            known = [n for n in dir(type(self)) if not n.startswith("_")]
            if name in ("T", "transpose", "reshape"):
                raise UnknownConstructError(
                    f"a tensor expression has no {name}", Location.of_caller(),
                    hint="only tensors have views: assign the expression to a temporary first",
                )  # fmt: skip
            raise unknown_attribute("a tensor", name, known)

    def __bool__(self) -> bool:
        raise SymbolicValueError(
            "the elements of a tensor are not known while tracing, so they cannot decide "
            "a Python if or while",
            Location.of_caller(),
            hint="in a leaf task.where(condition, yes, no) computes both; launches run or not "
            "under `with task.when(mask[i, j]):` by an integer of the caller's, or by a static "
            "flag; for 'and' and 'or' write (a > 0) & (b > 0)",
        )

    def _number(self, kind: str) -> NoReturn:
        raise SymbolicValueError(
            f"the elements of a tensor are not known while tracing, so it is no Python {kind}",
            Location.of_caller(),
            hint="functions of elements are task's own (task.exp, task.sqrt); "
            "numbers of Python come from shapes, tunables and static parameters",
        )

    def __int__(self) -> int:
        self._number("integer")

    def __index__(self) -> int:
        self._number("integer or index")

    def __float__(self) -> float:
        self._number("number")

    def __complex__(self) -> complex:
        self._number("number")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self._number("or NumPy array")

    def __format__(self, spec: str) -> str:
        return str(self) if not spec else self._number("number to format")

    def __iter__(self) -> NoReturn:
        raise IndexingError(
            "a tensor cannot be iterated in a task", Location.of_caller(),
            hint="compute on the whole tensor in a leaf (task.sum, task.max reduce it); in a "
            "composite partition it and loop by task.parallel_range over the partition's shape",
        )  # fmt: skip

    def __len__(self) -> int:
        raise IndexingError(
            "a tensor has no len() in a task", Location.of_caller(),
            hint="write x.shape[0], or x.ndim for how many axes it has",
        )  # fmt: skip

    def __contains__(self, _: object) -> bool:
        raise IndexingError(
            "whether a tensor contains a value is not known while tracing", Location.of_caller(),
            hint="write task.max(task.where(x == value, 1, 0)) in a leaf",
        )  # fmt: skip

    def __matmul__(self, _: object) -> NoReturn:
        raise ShapeError(
            "a tensor has no operator @", Location.of_caller(),
            hint='write task.call_primitive("gemm", C, A, B), which adds A @ B to C',
        )  # fmt: skip

    __rmatmul__ = __imatmul__ = __matmul__

    def __delitem__(self, _: object) -> NoReturn:
        raise IndexingError(
            "elements of a tensor cannot be deleted",
            Location.of_caller(),
            hint="take a view without them: x[1:]",
        )
