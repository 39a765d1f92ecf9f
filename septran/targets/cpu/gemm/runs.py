"""Groups of elements along the summed axis of what is read in place, by their numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from septran.ir.atoms import Atom, FloorDiv, Mod
from septran.ir.index import Index, Var, axis, ceil_div
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.lower.indices import with_axes


@dataclass(frozen=True)
class GroupRuns:
    """Groups of elements along a summed axis, which may begin anew after every run of them."""

    length: int
    """The elements of a run; 0 where all that is summed is one."""
    size: int
    """The elements of a group."""

    @property
    def padded(self) -> int:
        """Return the groups of a run as they are packed, the last one filled up."""
        return -(-self.length // self.size)

    def groups(self, steps: Index) -> Index:
        """Return the number of whole groups in so many elements."""
        if not self.length:
            return steps // self.size
        return steps // self.length * (self.length // self.size)

    def first(self, group: Index) -> Index:
        """Return the first element of a whole group, by its number."""
        each = self.length // self.size
        if not each:
            return group * self.size
        return group // each * self.length + group % each * self.size

    def packed(self, group: Index) -> Index:
        """Return the number of a whole group among those that are packed."""
        each = self.length // self.size
        return group // each * self.padded + group % each if each else group

    def by_groups(self, context: Context, a: Access) -> Access | None:
        """A's whole groups by their numbers; None where elements do not lie side by side."""
        if not self.length:
            return by_groups(context, a, self.size)
        each = self.length // self.size
        starts = self._starts(context, a) if each else None
        if starts is None:
            return None
        number = Index.of(axis(1))
        offset = starts.substitute({axis(1): number // each}) + number % each * self.size
        return _stepped(a, offset, self.first(number), self.groups(a.region.valid[1]))

    def ends(self, context: Context, a: Access) -> Access | None:
        """What whole groups leave of each run, by the run's number; None as of `by_groups`."""
        starts, done = self._starts(context, a), self.length // self.size * self.size
        if starts is None:
            return None
        first = Index.of(axis(1)) * self.length + done
        return _stepped(a, starts + done, first, a.region.valid[1] // self.length)

    def _starts(self, context: Context, a: Access) -> Index | None:
        """Return where each run of A starts, which lies side by side; None where it does not."""
        if any(a.leaving) or not a.region.valid[1].is_constant:
            return None
        known = with_axes(a.region, context.indices.ranges)
        # At least two runs, as `simplify` would put a single one in its place.
        known[axis(1)] = (0, max(1, a.region.shape[1] // self.length - 1))
        step = Var("@step")
        known[step] = (0, self.length - 1)
        at = Index.of(axis(1)) * self.length + Index.of(step)
        moved = a.offset.substitute({axis(1): at}).simplify(known)
        start = moved - Index.of(step)
        return start if step not in start.variables() else None


def _stepped(a: Access, offset: Index, first: Index, count: Index) -> Access:
    """A by numbers of groups or runs, each at `first` of its elements."""
    region = replace(
        a.region,
        index=tuple(entry.substitute({axis(1): first}) for entry in a.region.index),
        shape=(a.region.shape[0], max(1, count.constant)),
        valid=(a.region.valid[0], count),
    )
    return replace(a, region=region, offset=offset)


def by_groups(context: Context, a: Access, size: int) -> Access | None:
    """A's groups by their numbers; None where a group's elements do not lie side by side."""
    found = None if any(a.leaving) else _grouped(a.offset, size)
    if found is None or found[1] != 1:
        return None
    known = with_axes(a.region, context.indices.ranges)
    groups = max(1, a.region.shape[1] // size)
    known[axis(1)] = (0, max(1, groups - 1))
    first = Index.of(axis(1)) * size
    region = replace(
        a.region,
        index=tuple(entry.substitute({axis(1): first}) for entry in a.region.index),
        shape=(a.region.shape[0], groups),
        valid=(a.region.valid[0], ceil_div(a.region.valid[1], size)),
    )
    return replace(a, region=region, offset=found[0].simplify(known))


def _grouped(index: Index, size: int) -> tuple[Index, int] | None:
    """Return what `index` is at a group's first element, and what it grows by from one to the next.

    Where `size` divides `d` and `j` is below `size`, ``(size * q + j) // d`` is
    ``q // (d / size)``, and the remainder ``size * (q % (d / size)) + j``. None where it does
    not grow evenly.
    """
    total, step = Index((), index.constant), 0
    for atom, factor in index.terms:
        found = _grouped_atom(atom, size)
        if found is None:
            return None
        total, step = total + found[0] * factor, step + found[1] * factor
    return total, step


def _grouped_atom(atom: Atom, size: int) -> tuple[Index, int] | None:
    if axis(1) not in Index(((atom, 1),)).variables():
        return Index(((atom, 1),)), 0
    if atom == axis(1):
        return Index.of(axis(1)) * size, 1
    if not isinstance(atom, FloorDiv | Mod):
        return None
    inside = _grouped(atom.value, size)
    if inside is None:
        return None
    start, step = inside
    if step == 0:
        return (start // atom.divisor if isinstance(atom, FloorDiv) else start % atom.divisor), 0
    # Only where no group lies on both sides of a multiple of the divisor.
    if step != 1 or atom.divisor % size or start % size != Index():
        return None
    number, every = start // size, atom.divisor // size
    if isinstance(atom, FloorDiv):
        return number // every, 0
    return (number % every) * size, 1
