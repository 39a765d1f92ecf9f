"""Loops over the registers of a fragment, and which register a statement's element is in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from septran.ir.index import Index
from septran.ir.views import View
from septran.targets.cuda.context import Context, Storage
from septran.targets.cuda.fragment.fragments import Digit, Fragment
from septran.targets.cuda.fragment.inference import link
from septran.targets.cuda.fragment.statements import Places
from septran.targets.lower.writer import Expr, both
from septran.tile.layouts import ROW


@dataclass
class RegisterLoop:
    """The current iteration of the loops over a fragment's registers."""

    context: Context
    fragment: Fragment
    steps: dict[Digit, Index] = field(default_factory=dict)
    """The loop index of each register digit; those without one are at 0."""

    @property
    def coordinates(self) -> tuple[Index, ...]:
        """The element of this thread that the loops are at."""
        return tuple(self.coordinate(n) for n in range(self.fragment.rank))

    def coordinate(self, axis: int) -> Index:
        """Along one axis."""
        total = self.context.part(self.fragment, axis)
        for digit, weight in self.fragment.weighted(axis):
            if digit.place == "register":
                total = total + self.steps.get(digit, Index()) * weight
        return total

    @contextmanager
    def over(self, digits: Iterable[Digit]) -> Iterator[None]:
        """Unrolled loops over register digits, the first outermost."""
        with ExitStack() as stack:
            for digit in digits:
                loop = self.context.loop("r", digit.extent, unrolled=True)
                self.steps[digit] = stack.enter_context(loop)
            yield

    def register(self, storage: Storage, view: View, places: Places) -> Index:
        """The register that holds the view's element in this thread; see `reachable`."""
        pairs = link(view, places)
        assert pairs is not None
        assert storage.fragment is not None
        total = Index()
        for mine, its in pairs[0]:
            digits = zip(self.fragment.axes[mine], storage.fragment.axes[its], strict=True)
            for digit, held in digits:
                if digit.place == "register":
                    total = total + self.steps.get(digit, Index()) * held.stride
        for its in pairs[1]:
            constant = view.index[its].constant if view.index[its].is_constant else 0
            for digit, weight in storage.fragment.weighted(its):
                total = total + constant // weight % digit.extent * digit.stride
        return total


def reachable(fragment: Fragment, storage: Storage, view: View, places: Places) -> bool:
    """Whether each thread holds itself the view's elements that its own elements need."""
    pairs = link(view, places)
    held = storage.fragment
    if pairs is None or held is None or held.threads != fragment.threads:
        return False
    if not all(fragment.agrees(mine, held, its) for mine, its in pairs[0]):
        return False
    return all(d.place == "register" for its in pairs[1] for d in held.axes[its])


def register_digits(fragment: Fragment, axes: Sequence[int] | None = None) -> list[Digit]:
    """Register digits of some axes (all where None), those of the greatest stride first."""
    chosen = range(fragment.rank) if axes is None else axes
    digits = [d for n in chosen for d in fragment.axes[n] if d.place == "register"]
    # The innermost loop then goes over neighbouring registers.
    return sorted(digits, key=lambda d: -d.stride)


def lane_digit(fragment: Fragment) -> Digit | None:
    """The digit of neighbouring elements along the last axis in neighbouring registers."""
    if not fragment.rank or not fragment.axes[-1]:
        return None
    digit = fragment.axes[-1][-1]
    return digit if digit.place == "register" else None


def primary(context: Context, fragment: Fragment) -> Expr | None:
    """Whether this thread is the first of those that hold copies; None without copies."""
    conditions = [
        context.lower(context.thread // stride % extent) == context.writer.index(0)
        for stride, extent in fragment.replicated
        if stride < fragment.threads
    ]
    return both(*conditions)


def exists(
    context: Context, at: Sequence[Index], valid: Sequence[Index], axes: Iterable[int]
) -> Expr | None:
    """Whether an element's coordinates along some axes are below what exists."""
    return both(*(context.indices.below(at[n], valid[n]) for n in axes))


def declare_one(
    context: Context, name: str, shape: tuple[int, ...], dtype: str, fragment: Fragment
) -> Storage:
    """An array for one fragment."""
    # Temporaries have these signs in their names, so that no buffer of a program has one.
    label = name.replace("%", "t_").replace(".", "_")
    flat = context.writer.allocate(label, fragment.registers, dtype)
    storage = Storage(name, "REGISTER", shape, dtype, ROW, flat, fragment=fragment)
    context.storages[name] = storage
    return storage
