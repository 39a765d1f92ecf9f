"""What rules know of a task's structure, and the names that conditions have for it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from septran.mapping.structure.lying import (
    Surroundings,
    Window,
    is_transposed,
    summed_last,
    window_of,
)
from septran.mapping.structure.products import AXES, ROLES, Product, Products, products_of
from septran.task.tree import Allocate, Cut, TaskNode, statements

PRODUCTS = ("product", "first", "second", "last")
"""How conditions and memories call products; `product` is the first in conditions, any in roles."""
WINDOW = ("size", "stride", "padding", "channels")
NAMES = (
    *(f"{product}.{axis}" for product in PRODUCTS for axis in AXES),
    *(f"window.{name}" for name in WINDOW),
    "loops.iterations",
)
"""What conditions may name of a task's structure."""
PARTS = tuple(f"{product}.{role}" for product in PRODUCTS for role in ROLES)
"""What `mems` and `layouts` may name: the tensors that are a product's operand."""


@dataclass(frozen=True)
class Structure:
    """What a task computes, whatever it and its tensors are called."""

    parts: Products
    shapes: Mapping[str, tuple[int, ...]]
    """Extents of its parameters."""
    temporaries: Mapping[str, tuple[int, ...]]
    """Extents of its temporaries, which count where no parameter has them."""
    around: Surroundings
    cuts: tuple[Cut, ...] = ()

    @property
    def products(self) -> tuple[Product, ...]:
        """The products that it and the tasks below it compute, in program order."""
        return self.parts.products

    @functools.cached_property
    def window(self) -> tuple[str, Window] | None:
        """The first operand that is read through a window, and the window."""
        for product in self.products:
            for role in ("left", "right"):
                found = window_of(product, role, self.around)
                if found is not None:
                    return role, found
        return None

    @functools.cached_property
    def computed(self) -> frozenset[str]:
        """The operands that are computed beforehand, of any product."""
        return frozenset(
            role for p in self.products for role in ("left", "right") if p.operands[role].computed
        )

    @functools.cached_property
    def transposed(self) -> frozenset[str]:
        """The operands that lie in memory as their transpose, of any product."""
        return frozenset(
            role for p in self.products for role in ("left", "right")
            if is_transposed(p, role, self.around)
        )  # fmt: skip

    @functools.cached_property
    def one_right(self) -> bool:
        """Whether the first and the last of several products have one right operand."""
        if len(self.products) < 2:
            return False
        first, last = (
            set(p.operands["right"].tensors) for p in (self.products[0], self.products[-1])
        )
        return not first.isdisjoint(last)

    def named(self, name: str) -> tuple[Product, ...]:
        """The products that a rule calls `product`, `first`, `second` or `last`."""
        at = {"first": slice(0, 1), "second": slice(1, 2), "last": slice(-1, None)}
        return self.products[at.get(name, slice(None))]

    @functools.cached_property
    def _values(self) -> dict[str, int | None]:
        """What was asked for so far."""
        return {}

    def value(self, name: str) -> int | None:
        """What a condition calls `name`; None where the task has no such thing."""
        if name not in self._values:
            self._values[name] = self._found(name)
        return self._values[name]

    def _found(self, name: str) -> int | None:
        what, _, which = name.partition(".")
        if what == "loops":
            return self.around.iterations
        if what == "window":
            window = self.window
            number: int | None = getattr(window[1], which) if window else None
            return number
        found = self.named(what)
        if not found:
            return None
        extent = found[0].extent(which, self.shapes)
        return found[0].extent(which, self.temporaries) if extent is None else extent

    def cut_by(self, tunable: str) -> int | None:
        """The extent of what a tunable cuts first; None where it is not known."""
        for cut in self.cuts:
            if cut.tunable == tunable:
                shape = self.shapes.get(cut.tensor) or self.temporaries.get(cut.tensor)
                # Where a view merges several axes, only the draft's nominal extent is known.
                return shape[cut.axis] if shape and cut.axis is not None else cut.extent
        return None

    def parts_of(self, tensor: str) -> tuple[str, ...]:
        """The parts that a tensor plays, the most particular first: `second.right`."""
        return tuple(
            f"{name}.{role}"
            for name in (*PRODUCTS[1:], PRODUCTS[0])
            for role in ROLES
            if any(tensor in p.operands[role].tensors for p in self.named(name))
        )

    def layout(self, text: str, part: str, tensor: str) -> str:
        """A layout with numbers for the axes that it names: `panels(columns)` as `panels(1)`."""
        word, _, kind = text.removesuffix(")").partition("(")
        name, _, role = part.partition(".")
        for product in self.named(name) if kind in AXES else ():
            if word == "footprint":
                order = summed_last(product, role, tensor, self.around)
                # A footprint names all axes in their order, where other layouts name one.
                return f"{word}({', '.join(map(str, order))})"
            for place in product.operands[role].places:
                found = [n for n, kinds in enumerate(place.axes) if kinds == {kind}]
                if place.tensor == tensor and found:
                    return f"{word}({found[-1]})"
        return text


def structure_of(
    task: TaskNode, shapes: Mapping[str, tuple[int, ...]], around: Surroundings
) -> Structure:
    """The structure of a task with parameters of these extents."""
    own = {s.name: s.shape for s in statements(task.body) if isinstance(s, Allocate)}
    return Structure(products_of(task), shapes, own, around, task.cuts)
