"""The one table of the keys of an instance or a rule: `KEYS`.

Each key has its name, type, default and sentence here, and nowhere else: the file's checks, its
JSON Schema, reading, resolution, effects, printing and comparison go through the table. A key
whose value is for the passes is one entry here and its use: ``program.request(task).get(KEY)``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from septran.ir.primitives import PRIMITIVES
from septran.machine.kinds import (
    IDENTIFIER,
    NAME,
    Either,
    Field,
    Flag,
    Kind,
    ListOf,
    Named,
    Number,
    Record,
    Report,
    Schema,
    TableOf,
    Text,
    Whole,
    check,
    many,
)
from septran.machine.model import NONE
from septran.machine.positions import Node
from septran.machine.schema import LAYOUT
from septran.mapping.conditions import Formula
from septran.mapping.extern.name import InstructionName
from septran.mapping.structure.products import ROLES
from septran.mapping.structure.structure import PARTS, PRODUCTS

T = TypeVar("T", covariant=True)

Entries = Literal["", "tensor", "tunable", "primitive", "launch", "role"]
Need = Literal["asynchronous", "roles", "clusters", "parallel loop"]


@dataclass(frozen=True)
class Optionally:
    """The kind of ``[NONE, L2]``: in place if a copy takes longer than it saves, else in L2."""

    kind: Kind

    @property
    def expected(self) -> str:
        """The kind in words, for messages."""
        return f"[{NONE}, {self.kind.expected}]"

    def accepts(self, node: Node) -> bool:
        """Return whether the node is a list."""
        return isinstance(node.value, tuple)

    def check(self, node: Node, report: Report) -> None:
        """Report any other list."""
        places = [element.text for element in node.elements]
        if len(places) == 2 and places[0] == NONE != places[1]:
            check(self.kind, node.elements[1], report)
        else:
            message = f"a list of memories is [{NONE}, MEMORY]: not copied where that takes longer"
            report.wrong(message, node.where)

    def schema(self) -> Schema:
        """Return the JSON Schema of the kind."""
        places = [{"const": NONE}, self.kind.schema()]
        return {"type": "array", "prefixItems": places, "minItems": 2, "maxItems": 2}


OPERANDS = tuple(f"gemm.{operand}" for operand in PRIMITIVES["gemm"].operands)
GROUPS = ("*", "accumulators", "temporaries", "reads", "writes", *OPERANDS, *PARTS)
"""The names that `mems` may use besides tensors.

`gemm.A` is what a leaf passes to gemm as A, `product.right` the right operand of a product below,
however it gets there.
"""

WORD = Text(r"[A-Za-z0-9_.+-]{1,64}", "a word")
TASK = Text(IDENTIFIER, "a task's name")
_NAMES = ("gemm", "map", "fill", "copy", "accumulate")
PRIMITIVE = Text("|".join(_NAMES), f"a primitive: {', '.join(_NAMES)}")
_PART = rf"({'|'.join(PRODUCTS)})\.({'|'.join(ROLES)})"
_TENSOR = Text(rf"\*|gemm\.[ABC]|{_PART}|{IDENTIFIER}", 'a tensor, a group of tensors, or "*"')
_ONE_TENSOR = Text(rf"{_PART}|{IDENTIFIER}", "a tensor, product.right, or `reads` for all inputs")
_LAYOUT = Either((LAYOUT, Text(r"[a-z]+\((rows|columns|sum)\)", "panels(columns)")))
_TUNABLE = Text(r"[A-Za-z_*][A-Za-z0-9_*]{0,63}", "a tunable's name, perhaps with *")
_LAUNCHED = Text(rf"{IDENTIFIER}(#[1-9][0-9]{{0,3}})?", "a launched task's name")
_VALUE: Kind = Either((Whole(least=0), Flag(), Number(positive=False), WORD))
_CASE = Record(
    {
        "when": Field(Formula(), "condition over dimensions, shapes and dtype"),
        "value": Field(_VALUE, "the value where it holds", required=True),
        "multiple": Field(Whole(most=1024), "a smaller dimension's tile is rounded up to"),
    },
    "a case",
)
_PREFERENCES = TableOf(_TUNABLE, Either((_VALUE, _CASE, ListOf(Either((_VALUE, _CASE)), least=1))))
FASTEST = "fastest"
"""Among instructions, those of the machine by its file's throughput."""
_INSTRUCTIONS = many(Named("instruction", extra=(FASTEST,)))
_LEAFS = many(InstructionName("instruction", extra=(FASTEST,)))


@dataclass(frozen=True)
class Key(Generic[T]):
    """One key of an instance or a rule."""

    path: str
    """The path as the file nests it: ``pipeline``, ``roles.consumers``."""
    kind: Kind = field(hash=False)
    """The type of its value, with the names that it may use."""
    doc: str
    """A sentence of documentation, which editors show."""
    default: T = field(hash=False)
    """The value where no plan gives one; a value equal to it is not printed."""
    entries: Entries = ""
    """The things that the names of a table are; empty for a single value."""
    common: bool = True
    """Whether code of every backend depends on it, not only of those with it in their `keys`."""
    needs: tuple[Need, ...] = ()
    """The features without which it has no effect (`septran.mapping.effects`)."""
    only_instances: bool = False
    """Whether rules cannot give it."""
    formerly: str = ""
    """The former name, which files may still use; a remark reports it."""

    def found(self, node: Node) -> Node | None:
        """Return the node that an instance's or rule's node gives for it, None without one."""
        head, _, last = self.path.partition(".")
        given = node.get(head) or (node.get(self.formerly) if self.formerly else None)
        if given is None or last:
            return given and given.get(last)
        nested = _NESTED.get(head)
        return given.get(nested.own) if nested and given.items and not given.tag else given


@dataclass(frozen=True)
class _Nested:
    """A key whose value may be a table of keys."""

    what: str
    doc: str
    own: str = ""
    """The table's name for the value that may stand in the table's place; empty for none."""


_NESTED = {
    "pipeline": _Nested("pipeline", "stages of the loop that feeds asynchronous copies", "stages"),
    "roles": _Nested("roles", "producer and consumer roles in detail"),
}

PROC = Key[str]("proc", Named("processor"), "processor level that runs it", "")
MEMS = Key[Mapping[str, str]](
    "mems",
    TableOf(_TENSOR, Either((Named("memory", extra=(NONE,)), Optionally(Named("memory"))))),
    "memory of each tensor or group of tensors; NONE: not materialised here; [NONE, L2]: "
    "in L2 unless a copy takes longer than it saves",
    {}, "tensor",
)  # fmt: skip
TUNABLES = Key[Mapping[str, Any]](
    "tunables", _PREFERENCES, "values for the logic's tunables", {}, "tunable"
)
BINDING = Key[Mapping[str, Any]](
    "binding",
    Either((_LEAFS, TableOf(PRIMITIVE, _INSTRUCTIONS))),
    "instruction of a leaf, best first, or fastest by the machine file; or one list for each "
    "primitive; or a function of one's own: extern FILE:FUNCTION",
    {}, "primitive",
)  # fmt: skip
PIPELINE = Key[int]("pipeline", Whole(most=16), "stages", 1, needs=("asynchronous",))
PIPELINE_ORDER = Key[tuple[int, ...]](
    "pipeline.order", ListOf(Whole(least=0, most=64)), "order of the statements", (), common=False
)
WARPSPECIALIZE = Key[bool](
    "warpspecialize", Flag(), "producer and consumer roles", default=False, needs=("asynchronous",)
)
CONSUMERS = Key[int]("roles.consumers", Whole(most=8), "how many consumers", 1, needs=("roles",))
# 24 to 256 registers is what PTX's setmaxnreg takes.
REGISTERS = Key[Mapping[str, int]](
    "roles.registers",
    TableOf(Text("producer|consumer", "producer or consumer"), Whole(24, 256)),
    "registers a thread of each role",
    {}, "role", needs=("roles",),
)  # fmt: skip
LAYOUTS = Key[Mapping[str, str]](
    "layouts", TableOf(_ONE_TENSOR, _LAYOUT), "layout of a tensor's buffer", {}, "tensor"
)
COPY = Key[Mapping[str, str]](
    "copy", TableOf(_ONE_TENSOR, Named("engine")), "engine of a tensor's copies", {}, "tensor"
)
ORDER = Key[tuple[str, ...]](
    "order", ListOf(WORD, least=1), "order of parallel iterations: loop indices", (),
    common=False, needs=("parallel loop",),
)  # fmt: skip
PERSISTENT = Key[bool](
    "persistent", Flag(), "as many units as fit walk over the tiles", default=False,
    common=False, needs=("parallel loop",),
)  # fmt: skip
CLUSTER = Key[Any](
    "cluster", Either((Whole(most=16), ListOf(Whole(most=16), 1, 3))), "blocks a cluster", (),
    common=False, needs=("clusters", "parallel loop"),
)  # fmt: skip
RASTER = Key[int](
    "raster", Whole(most=1024), "rows of tiles of a grid that are taken together", 0,
    common=False, needs=("parallel loop",),
)  # fmt: skip
OVERLAP = Key[bool](
    "overlap", Flag(), "products of neighbouring iterations run beside each other", default=False,
    common=False,
)  # fmt: skip
PINGPONG = Key[bool](
    "pingpong", Flag(), "consumers whose products overlap issue them one after the other",
    default=False, common=False, formerly="turns",
)  # fmt: skip
CALLS = Key[Mapping[str, str]](
    "calls", TableOf(_LAUNCHED, NAME), "which instance each launched task becomes", {}, "launch",
    only_instances=True,
)  # fmt: skip
LEAF_TASK_BINDINGS = Key[Mapping[str, Any]](
    "leaf_task_bindings", TableOf(_LAUNCHED, _LEAFS),
    "instruction of each launched leaf, best first, or extern FILE:FUNCTION",
    {}, "launch", only_instances=True,
)  # fmt: skip

KEYS: tuple[Key[Any], ...] = (
    PROC, MEMS, TUNABLES, BINDING, PIPELINE, PIPELINE_ORDER, WARPSPECIALIZE, CONSUMERS, REGISTERS,
    LAYOUTS, COPY, ORDER, PERSISTENT, CLUSTER, RASTER, OVERLAP, PINGPONG, CALLS, LEAF_TASK_BINDINGS,
)  # fmt: skip
"""The keys in the order of the schema and of printed mappings."""
SINGLE = tuple(key for key in KEYS if not key.entries)
"""The keys with one value: resolution takes that of the first plan that has one."""
TABLES = (MEMS, REGISTERS, LAYOUTS, COPY, CALLS)
"""The keys with a value for each entry: each is from the first plan that has it."""
LISTS = (BINDING, LEAF_TASK_BINDINGS)
"""The keys with a list for each entry, best first."""


def fields(instances: bool) -> dict[str, Field]:
    """Return the keys of an instance, or of a rule, as fields of a record."""
    wanted = [key for key in KEYS if instances or not key.only_instances]
    # `groupby` joins neighbours only: in `KEYS` the keys of one table are side by side.
    grouped = itertools.groupby(wanted, key=lambda key: key.path.partition(".")[0])
    found = {head: _field(head, tuple(keys)) for head, keys in grouped}
    old = {k.formerly: Field(k.kind, f"former name of {k.path}") for k in wanted if k.formerly}
    return found | old


def nested(values: Mapping[Key[Any], Any]) -> dict[str, Any]:
    """Return values by key as a file nests them: ``{"roles": {"consumers": 2}}``."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        head, _, last = key.path.partition(".")
        if not last:
            found[head] = value
        elif isinstance(inner := found.setdefault(head, {}), dict):
            inner[last] = value
        else:
            found[head] = {_NESTED[head].own: inner, last: value}
    return found


def _field(head: str, keys: tuple[Key[Any], ...]) -> Field:
    nested = _NESTED.get(head)
    if nested is None:
        (key,) = keys
        return Field(key.kind, key.doc)
    inner = dict(_inner(nested, keys))
    record = Record(inner, nested.what)
    whole = Either((inner[nested.own].kind, record)) if nested.own else record
    return Field(whole, nested.doc)


def _inner(nested: _Nested, keys: tuple[Key[Any], ...]) -> Iterator[tuple[str, Field]]:
    for key in keys:
        last = key.path.partition(".")[2]
        yield last or nested.own, Field(key.kind, key.doc, required=not last)
