"""Loading of a machine file as a `Machine`."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from septran.errors import SepTranError, nearest, raise_all
from septran.ir.primitives import PRIMITIVES
from septran.location import Location
from septran.machine.kinds import Report, check
from septran.machine.mistakes import (
    FAMILY,
    MachineSyntaxError,
    MissingMachineKeyError,
    NoMachineError,
    UnknownMachineKeyError,
    UnknownPartError,
    WrongMachineValueError,
)
from septran.machine.model import (
    Engine,
    FormerKey,
    Instruction,
    Machine,
    Memory,
    Processor,
    frozen,
)
from septran.machine.positions import Node, parse, read_text
from septran.machine.schema import FORMER_KEYS, MACHINE
from septran.machine.units import BANDWIDTH, BYTES, LATENCY, THROUGHPUT

OWN_MACHINES = "SEPTRAN_MACHINES"
"""The variable of the environment that names a folder of files to take for shipped machines."""
NATIVE_IS = "SEPTRAN_NATIVE"
"""The variable of the environment that says what ``arch: native`` is taken for."""

_LEVELS = {"avx512": "avx512f", "avx2": "avx2"}
"""Widths of vectors, the widest first, by the feature that Linux lists for each."""
_MADE_FOR = {"split": "avx512", "amx": "avx512"}
"""The width of the processors for which `SEPTRAN_NATIVE` makes code under further names."""


def mappings_root() -> Path:
    """The folder of the shipped mappings, in a checkout or in an installed package."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_mappings"
    return installed if installed.is_dir() else package.parent / "mappings"


def machine_names() -> tuple[str, ...]:
    """Return the names of the machines that come with SepTran."""
    return tuple(sorted(p.stem for p in (mappings_root() / "machines").glob("*.yaml")))


def load_machine(machine: str | Path | Machine) -> Machine:
    """Return a machine by name (``cpu-x86``) or by the path of its file.

    Of a shipped machine's name, a file in the folder that `SEPTRAN_MACHINES` names comes first:
    ``cpu-x86.yaml`` there has the figures of the host that one has.
    Raises MachineError, or Errors with all mistakes of the file.
    """
    if isinstance(machine, Machine):
        return machine
    if not isinstance(machine, str | Path):
        hint = "pass the name of a machine, or its file"
        raise NoMachineError(f"{machine!r} is no machine", hint=hint)
    path = _find(machine)
    return _load(str(path), _stamp(path), os.environ.get(NATIVE_IS, ""))


def _find(machine: str | Path) -> Path:
    name = str(machine)
    if isinstance(machine, Path) or name.endswith((".yaml", ".yml")):
        return Path(machine)
    if name in machine_names():
        folder = os.environ.get(OWN_MACHINES)
        own = Path(folder) / f"{name}.yaml" if folder else None
        return own if own and own.is_file() else mappings_root() / "machines" / f"{name}.yaml"
    raise NoMachineError(f"no machine {name!r}", hint=nearest(name, machine_names()))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except (OSError, ValueError):
        # What is wrong with the file is reported when it is read.
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=32)
def _load(path: str, stamp: tuple[int, int], native: str) -> Machine:
    del stamp, native  # parts of the key: an edited file is read again, native peaks are its own
    return read_machine(read_text(Path(path), MachineSyntaxError, NoMachineError), path)


def read_machine(text: str, file: str) -> Machine:
    """Return the machine that `text` describes; `file` is for messages.

    Raises MachineError, or Errors with all mistakes.
    """
    node = _extended(parse(text, file, MachineSyntaxError))
    names = {"processor": tuple(_section(node, "processors"))}
    names["memory"] = tuple(_section(node, "memories"))
    report = Report(FAMILY, names, node.get("name").text if node.get("name") else "the machine")  # type: ignore[union-attr]
    check(MACHINE, node, report)
    report.errors += _across(node)
    # In the order of the file, whichever check found them.
    raise_all(sorted(report.errors, key=_place))
    return _machine(node)


def _extended(node: Node) -> Node:
    """With what the shipped machine has that it extends, if any."""
    name = node.get("extends")
    if name is None or not isinstance(name.value, str):
        return node
    if name.text not in machine_names():
        hint = nearest(name.text, machine_names())
        raise NoMachineError(f"no machine {name.text!r} comes with SepTran", name.where, hint=hint)
    path = mappings_root() / "machines" / f"{name.text}.yaml"
    lower = parse(
        read_text(path, MachineSyntaxError, NoMachineError), str(path), MachineSyntaxError
    )
    return _over(node, lower)


def _over(upper: Node, lower: Node) -> Node:
    """Tables key by key, in the lower one's order; any other value replaces."""
    if not all(isinstance(n.value, Mapping) for n in (upper, lower)):
        return upper
    entries = {
        k: _over(upper.items[k], v) if k in upper.items else v for k, v in lower.items.items()
    }
    keys = {**lower.keys, **upper.keys}
    fresh = {k: v for k, v in upper.items.items() if k not in entries}
    return Node(MappingProxyType({**entries, **fresh}), upper.where, "", MappingProxyType(keys))


def _place(error: SepTranError) -> tuple[str, int, int]:
    where = error.where
    return (where.file, where.line, where.column or 0) if where else ("", 0, 0)


def _section(node: Node, key: str) -> Mapping[str, Node]:
    found = node.items.get(key)
    return found.items if found else {}


def _across(node: Node) -> list[SepTranError]:
    """Return mistakes that only show when several entries are seen together."""
    found = (_levels, _edges, _clock, _aliases, _capacities, _operands)
    return [error for of in found for error in of(node)]


def _levels(node: Node) -> list[SepTranError]:
    errors: list[SepTranError] = []
    names = list(_section(node, "processors"))
    for position, (name, level) in enumerate(_section(node, "processors").items()):
        of = level.get("of")
        if of is None or of.text not in names:
            continue
        if position == 0:
            message = f"{name} is the first, outermost level and has no `of`"
            errors.append(WrongMachineValueError(message, of.where))
        elif of.text != names[position - 1]:
            message = f"{name} is of {of.text}, but the level before it is {names[position - 1]}"
            hint = "list processors outermost first, each `of` the one before"
            errors.append(WrongMachineValueError(message, of.where, hint=hint))
    return errors


def _edges(node: Node) -> list[SepTranError]:
    errors: list[SepTranError] = []
    memories = list(_section(node, "memories"))
    for engine in _section(node, "engines").values():
        moves = engine.get("moves")
        for edge in moves.elements if moves and isinstance(moves.value, tuple) else ():
            for name in re.split(r" ?<?-> ?", edge.text):
                if name not in memories and "->" in edge.text:
                    message = f"unknown memory {name!r} in {edge.text}"
                    hint = nearest(name, memories)
                    errors.append(UnknownPartError(message, edge.where, hint=hint))
    return errors


def _clock(node: Node) -> list[SepTranError]:
    """Return a mistake for a figure that cannot be converted without the clock."""
    if node.get("clock_mhz"):
        return []
    for section, key, kind, needless in (
        ("processors", "launch", LATENCY, "ns"),
        ("memories", "bandwidth", BANDWIDTH, "B/s"),
        ("memories", "write_bandwidth", BANDWIDTH, "B/s"),
        ("memories", "stream_bandwidth", BANDWIDTH, "B/s"),
        ("memories", "unit_bandwidth", BANDWIDTH, "B/s"),
        ("memories", "latency", LATENCY, "ns"),
        ("engines", "bandwidth", BANDWIDTH, "B/cycle"),
        ("engines", "latency", LATENCY, "cycles"),
    ):
        for part in _section(node, section).values():
            value = part.get(key)
            try:
                if value and kind.read(value)[1] != needless:
                    message = f"{value.text} needs clock_mhz to be converted"
                    return [MissingMachineKeyError(message, value.where)]
            except ValueError:
                continue  # reported already
    return []


def _aliases(node: Node) -> list[SepTranError]:
    errors: list[SepTranError] = []
    sections = ("processors", "memories", "engines", "instructions")
    names = [name for section in sections for name in _section(node, section)]
    for alias, target in _section(node, "aliases").items():
        if target.value is not None and target.text not in names:
            message = f"alias {alias} stands for {target.text!r}, which the machine does not have"
            hint = nearest(target.text, names)
            errors.append(UnknownPartError(message, target.where, hint=hint))
        if alias in names:
            where = node.items["aliases"].keys[alias]
            message = f"{alias} is a name of the machine's own and cannot be an alias"
            errors.append(WrongMachineValueError(message, where))
    return errors


def _capacities(node: Node) -> list[SepTranError]:
    for name, memory in list(_section(node, "memories").items())[:1]:
        outermost = next(iter(_section(node, "processors")), None)
        level = memory.get("visible_to")
        if level and outermost and level.text != outermost:
            message = f"{name} is the first memory and must be visible to {outermost}"
            hint = "list the memory that callers' tensors are in first"
            return [WrongMachineValueError(message, level.where, hint=hint)]
    return []


_OPERANDS = {"map": ("Y", "X")} | {name: p.operands for name, p in PRIMITIVES.items()}
"""The operands of each primitive; a tensor expression writes Y and reads X."""


def _operands(node: Node) -> list[SepTranError]:
    """Return mistakes in an instruction's operands, and in lists that do not fit them."""
    errors: list[SepTranError] = []
    for name, entry in _section(node, "instructions").items():
        primitive = _text(entry, "primitive")
        known = _OPERANDS.get(primitive)
        for key in ("operands", "layouts"):
            held = entry.get(key)
            for operand, where in (held.keys if held else {}).items():
                if known is not None and operand not in known:
                    message = f"{primitive} has no operand {operand!r}; it has {', '.join(known)}"
                    hint = nearest(operand, known)
                    errors.append(UnknownMachineKeyError(message, where, hint=hint))
        if primitive == "gemm":
            errors += _gemm_extents(name, entry)
    return errors


def _gemm_extents(name: str, entry: Node) -> list[SepTranError]:
    """Return lists of a gemm's instruction without an entry for each extent or operand."""
    errors: list[SepTranError] = []
    dtypes = entry.get("dtypes")
    lists: list[tuple[Node | None, tuple[int, ...], str]]
    lists = [(entry.get("tile"), (2, 3), "extents m, n, k")]
    lists += [(entry.get("multiple_of"), (2, 3), "extents m, n, k")]
    lists += [
        (one, (3,), "element types of C, A, B") for one in (dtypes.elements if dtypes else ())
    ]
    for held, lengths, what in lists:
        if held is not None and isinstance(held.value, tuple) and len(held.elements) not in lengths:
            message = f"{name} has a list of {len(held.elements)} here, where {what} are meant"
            errors.append(WrongMachineValueError(message, held.where))
    return errors


def _machine(node: Node) -> Machine:
    items = node.items
    clock = float(items["clock_mhz"].value) if node.get("clock_mhz") else None  # type: ignore[arg-type]
    memories = tuple(
        _memory(name, m, clock) for name, m in _section(node, "memories").items()
    )  # fmt: skip
    names = tuple(m.name for m in memories)
    return Machine(
        name=items["name"].text,
        backend=items["backend"].text,
        arch=_text(node, "arch"),
        clock_mhz=clock,
        processors=_processors(node, clock),
        memories=memories,
        engines=tuple(
            _engine(name, e, names, clock) for name, e in _section(node, "engines").items()
        ),
        instructions=tuple(
            _instruction(name, i, _text(node, "arch"))
            for name, i in _section(node, "instructions").items()
        ),
        aliases=MappingProxyType({k: v.text for k, v in _section(node, "aliases").items()}),
        vendor=_plain(node, "vendor"),
        location=Location(node.where.file, 1),
        former_keys=tuple(_former_keys(node)),
    )


def _former_keys(node: Node) -> Iterator[FormerKey]:
    """Yield each former name in the file, at its first place."""
    parts = [node, *(p for n in ("processors", "memories") for p in _section(node, n).values())]
    for name, now in FORMER_KEYS.items():
        places = [part.keys[name] for part in parts if name in part.items]
        yield from (FormerKey(name, now, place) for place in places[:1])


def _display_name(node: Node) -> str:
    return _text(node, "display_name") or _text(node, "called")


def _text(node: Node, key: str, default: str = "") -> str:
    found = node.get(key)
    return found.text if found else default


def _processors(node: Node, clock: float | None) -> tuple[Processor, ...]:
    levels: list[Processor] = []
    for name, level in _section(node, "processors").items():
        of = levels[-1].name if levels else None
        count = level.get("count")
        number = 1 if count is None else _host_cores() if count.value == "auto" else count.value
        launch = _nanoseconds(level.get("launch"), clock)
        levels.append(Processor(name, int(number), of, _display_name(level), launch))  # type: ignore[arg-type]
    return tuple(levels)


def _host_cores() -> int:
    """Return the number of logical processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _memory(name: str, node: Node, clock: float | None) -> Memory:
    capacity, alignment = node.get("capacity"), node.get("alignment")
    rows = node.get("row_alignment")
    return Memory(
        name,
        visible_to=node.items["visible_to"].text,
        capacity_bytes=int(BYTES.read(capacity)[0]) if capacity else None,
        bytes_per_second=_per_second(node.get("bandwidth"), clock),
        latency_ns=_nanoseconds(node.get("latency"), clock),
        write_bytes_per_second=_per_second(node.get("write_bandwidth"), clock),
        stream_bytes_per_second=_per_second(node.get("stream_bandwidth"), clock),
        unit_bytes_per_second=_per_second(node.get("unit_bandwidth"), clock),
        duplex=_flag(node, "duplex", default=False),
        alignment=int(alignment.value) if alignment else 1,  # type: ignore[arg-type]
        row_alignment=int(rows.value) if rows else 1,  # type: ignore[arg-type]
        cached=_flag(node, "cached", default=False),
    )


def _per_second(node: Node | None, clock: float | None) -> float | None:
    if node is None:
        return None
    rate, unit = BANDWIDTH.read(node)
    return rate * (clock or 0) * 1e6 if unit == "B/cycle" else rate


def _nanoseconds(node: Node | None, clock: float | None) -> float | None:
    if node is None:
        return None
    time, unit = LATENCY.read(node)
    return time / (clock or 1) * 1e3 if unit == "cycles" else time


def _flag(node: Node, key: str, *, default: bool) -> bool:
    found = node.get(key)
    return bool(found.value) if found else default


def _engine(name: str, node: Node, memories: tuple[str, ...], clock: float | None) -> Engine:
    # An engine's figures are kept in cycles; without a clock, which cancels out, any one does.
    rate = _per_second(node.get("bandwidth"), clock or 1)
    latency = _nanoseconds(node.get("latency"), clock or 1)
    depth, alignment = node.get("queue_depth"), node.get("alignment")
    layouts = node.get("layouts")
    asynchronous = _flag(node, "asynchronous", default=False)
    return Engine(
        name,
        moves=_moves(node.items["moves"], memories),
        asynchronous=asynchronous,
        completes_by=_text(node, "completes_by", "event" if asynchronous else "return"),
        bytes_per_cycle=None if rate is None else rate / ((clock or 1) * 1e6),
        latency_cycles=0 if latency is None else round(latency * (clock or 1) / 1e3),
        alignment=int(alignment.value) if alignment else 1,  # type: ignore[arg-type]
        queue_depth=int(depth.value) if depth else None,  # type: ignore[arg-type]
        layouts=tuple(e.text for e in layouts.elements) if layouts else ("row",),
        transposes=_flag(node, "transposes", default=True),
        location=node.where,
    )


def _moves(node: Node, memories: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if node.value == "all":
        return tuple((a, b) for a in memories for b in memories if a != b)
    edges: list[tuple[str, str]] = []
    for edge in node.elements:
        first, second = re.split(r" ?<?-> ?", edge.text)
        edges.append((first, second))
        if "<->" in edge.text:
            edges.append((second, first))
    return tuple(edges)


def _throughput(node: Node | None, arch: str) -> float | None:
    """Return the figure, or `arch`'s from a table; this host's where `arch` is native."""
    if node is None:
        return None
    if not isinstance(node.value, Mapping):
        return THROUGHPUT.read(node)[0]
    wanted = _host_level(tuple(node.items)) if arch == "native" else arch
    # An arch that the table lacks counts as the widest: features of few processors come before it.
    widest = next((name for name in node.items if name in _LEVELS), next(iter(node.items)))
    return THROUGHPUT.read(node.items.get(wanted, node.items[widest]))[0]


def _host_level(levels: tuple[str, ...]) -> str:
    """Return the first of `levels` that Linux lists among this processor's features.

    What ``native`` is taken for decides before that.
    """
    asked = os.environ.get(NATIVE_IS, "")
    if (native := _MADE_FOR.get(asked, asked)) in levels:
        return native
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return levels[0]
    # Widest first, so the first that the processor has; the narrowest where none is named there.
    return next((level for level in levels if _LEVELS.get(level, level) in flags), levels[-1])


def _instruction(name: str, node: Node, arch: str) -> Instruction:
    dtypes, throughput = node.get("dtypes"), node.get("throughput")
    return Instruction(
        name,
        primitive=node.items["primitive"].text,
        dtypes=tuple(tuple(d.text for d in o.elements) for o in dtypes.elements) if dtypes else (),
        tile=_numbers(node, "tile"),
        multiple_of=_numbers(node, "multiple_of"),
        operands=MappingProxyType(
            {k: tuple(m.text for m in v.elements) for k, v in _section(node, "operands").items()}
        ),
        layouts=MappingProxyType({k: v.text for k, v in _section(node, "layouts").items()}),
        panels=_numbers(node, "panels"),
        requires=_words(node, "requires"),
        issued_by=_text(node, "issued_by"),
        throughput=_throughput(throughput, arch),
        costs=MappingProxyType({k: float(v.value) for k, v in _section(node, "costs").items()}),  # type: ignore[arg-type]
        options=_plain(node, "options"),
        location=node.where,
    )


def _numbers(node: Node, key: str) -> tuple[int, ...]:
    found = node.get(key)
    return tuple(int(e.text) for e in found.elements) if found else ()


def _plain(node: Node, key: str) -> Mapping[str, Any]:
    """Return a table as data that cannot be changed, without places."""
    found: Mapping[str, Any] = frozen({k: v.plain() for k, v in _section(node, key).items()})
    return found


def _words(node: Node, key: str) -> tuple[str, ...]:
    found = node.get(key)
    return tuple(e.text for e in found.elements) if found else ()
