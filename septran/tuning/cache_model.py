"""How long a program takes on processors with caches: step after step, from the level of its data.

A step is a copy, a product, or neighbouring tensor expressions, which are done row by row. It
takes as long as the longer of

- its instructions: multiply-adds of whole vectors, functions at what each of them costs, loads
  and stores at the rates of the innermost cache, and
- its data: bytes at the bandwidth of the level where they are found, which follows from how
  much is touched between two uses (`reuse`), those of all cores together where cores share it.

Steps follow one another. The core with the most iterations counts, each loop over the cores
starts and ends once, and so does the call itself. A kernel is called again and again: what the
caches keep of the last call is found there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from septran.backends import backend_of
from septran.dtypes import accumulator_dtype, itemsize
from septran.ir.index import Var, axis
from septran.machine.model import Machine, Memory
from septran.tile.analyses.cpu_decisions import PARALLEL_WORK, streamed, work_of
from septran.tile.analyses.loops import most_iterations, ranges, walk
from septran.tile.analyses.tallies import amount, tally
from septran.tile.nodes import Compute, Copy, For, Region, TileProgram, reads, writes
from septran.tuning.operations import (
    instruction_of,
    lies_apart,
    operations,
    rate_of,
    register_width,
    scan_steps,
    turns,
    vectors_along,
)
from septran.tuning.reuse import Nest, Reuse, TimedStep, nest_of, steps_of

MOST_STRIPS = 3
"""Strips of rows for which what they are multiplied by is computed where it is used."""
PARALLEL_ELEMENTS = 1 << 15
"""Elements of a step outside of loops over cores from which on all cores share it."""
RETAINED = (0.75, 1.25)
"""Parts of a cache's capacity: what is touched between two uses is kept below the first, gone
above the second. Caches are not filled in the order of use alone, so neither is sharp: going round
in as many bytes as a cache has, about half of them is found there."""
APART_CYCLES = 2.0
"""Of an element whose neighbour in a vector does not lie beside it: it is loaded by itself, and put
in its place by the one port that moves elements between lanes, some of them twice."""
WIDENING_OPERATIONS = 1.0
"""Of a vector of 16-bit floats that is made one of float32, as what multiplies it adds float32."""
OVERLAP = 0.5
"""The part of the shorter of instructions and data that the longer one hides."""


@dataclass
class Times:
    """Amounts and seconds by resource."""

    amounts: dict[tuple[str, str], float] = field(default_factory=dict)
    seconds: dict[tuple[str, str], float] = field(default_factory=dict)
    total: float = 0.0
    """Seconds of all steps, one after another."""

    def add(self, kind: str, name: str, amount: float, seconds: float) -> None:
        """Note what a resource does, and how long it is busy."""
        key = (kind, name)
        self.amounts[key] = self.amounts.get(key, 0.0) + amount
        self.seconds[key] = self.seconds.get(key, 0.0) + seconds


def has_caches(machine: Machine) -> bool:
    """Whether hardware fills some of its memories by itself."""
    return any(memory.cached for memory in machine.memories)


@dataclass(frozen=True)
class Registers:
    """The vector registers of a core, and the tile of float32 that a product sums in them."""

    bytes: int = 64
    rows: int = 8
    columns: int = 48


def registers(machine: Machine) -> Registers:
    """Those that code for the machine is made of; of one that nobody knows, AVX-512's."""
    of = backend_of(machine.backend).registers
    return Registers(*of(machine.arch)) if of else Registers()


class CacheModel:
    """The time of one program."""

    def __init__(self, program: TileProgram) -> None:
        """Find the program's loops and who runs how many of their iterations."""
        self.program, self.machine = program, program.machine
        self.buffers = {b.name: b for b in program.buffers}
        self.registers = registers(self.machine)
        inner = self.machine.processors[1:2]
        self.units = max(1, inner[0].count) if inner else 1
        self.times, self.unknown, self.most_used = Times(), set[str](), 1
        self.tree = nest_of(program)
        self.users: dict[str, set[int]] = {}
        for step, _ in steps_of(self.tree):
            for region in (r for node in step.nodes for r in _all(node)):
                self.users.setdefault(region.buffer, set()).add(id(step))
        self.fused = {id(step): names for step, names in self._fused()}
        self.ranges = ranges(program.body)
        self.spread = list(_spread(self.tree))
        self.trip_counts = self._trip_counts()
        self.reuse = Reuse(program, self.trip_counts)
        self.streams = {n for n in program.outputs if streamed(program, self.buffers[n])}
        self.everything = sum(math.prod(b.shape) * itemsize(b.dtype) for b in program.buffers)

    def run(self) -> Times:
        """All steps, the starts of loops, and the call."""
        for loops, outer in self.spread:
            # A loop that one unit runs alone starts nobody else.
            if self._used(loops) > 1:
                count = math.prod(most_iterations(outer)) if outer else 1
                self.start(self.machine.processors[1].name, count)
        for step, around in steps_of(self.tree):
            self._time(step, around)
        self.start(self.machine.host.name, 1)
        return self.times

    def start(self, processor: str, count: float) -> None:
        """So many starts and ends of work on a level's units."""
        seconds = (self.machine.processor(processor).launch_ns or 0.0) * 1e-9 * count
        if seconds:
            self.times.add("start", processor, count, seconds)
            self.times.total += seconds

    def _fused(self) -> Iterator[tuple[TimedStep, frozenset[str]]]:
        """Steps with what few rows are multiplied by: computed where it is used, not stored."""
        every = list(steps_of(self.tree))
        for (first, _), (second, _) in itertools.pairwise(every):
            gemm = second.nodes[0]
            if first.loops != second.loops or not _multiplies(gemm) or isinstance(gemm, Copy):
                continue
            name, few = gemm.operands[2].buffer, MOST_STRIPS * self.registers.rows
            made = {r.buffer for n in first.nodes if isinstance(n, Compute) for r in writes(n)}
            alone = self.users[name] == {id(first), id(second)}
            if name in made and alone and gemm.operands[0].shape[0] <= few:
                yield first, frozenset((name,))
                yield second, frozenset((name,))

    def _trip_counts(self) -> dict[Var, int]:
        """Iterations of each loop that the busiest unit runs: inner loops as a whole."""
        found: dict[Var, int] = {}
        for node, loops in walk(self.program.body):
            if isinstance(node, For):
                found[node.variable] = most_iterations((*loops, node))[-1]
        for loops, _ in self.spread:
            # A unit gets a run of iterations: all of the inner loops', then of the outer ones.
            left = -(-math.prod(found[x.variable] for x in loops) // self._used(loops))
            for loop in reversed(loops):
                mine = min(found[loop.variable], left)
                left = -(-left // max(1, mine))
                found[loop.variable] = mine
        return found

    def _used(self, loops: tuple[For, ...]) -> int:
        """Units that have a part of some loops."""
        if self.units > 1 and work_of(loops[0], self.ranges) < PARALLEL_WORK:
            return 1
        used = max(1, min(self.units, math.prod(most_iterations(loops))))
        self.most_used = max(self.most_used, used)
        return used

    # ------------------------------------------------------------ steps
    def _time(self, step: TimedStep, around: tuple[Nest, ...]) -> None:
        """Add a step, by the unit that has most of it to do."""
        active, share = self._sharing(step)
        work = _Work(self, step, around, active, share)
        busy, moved = work.instructions(), work.data()
        self.times.total += max(busy, moved) + (1 - OVERLAP) * min(busy, moved)

    def _sharing(self, step: TimedStep) -> tuple[int, float]:
        """How many units run a step, and the part that is one's of what `trip_counts` has."""
        nest = next((x for x, _ in self.spread if x[0] in step.loops), None)
        if nest is not None:
            active = self._used(nest)
            every = math.prod(most_iterations(nest))
            mine = math.prod(self.trip_counts[x.variable] for x in nest)
            # `trip_counts` are rounded up loop by loop, which together may be more than a unit's
            # part.
            return active, -(-every // active) / mine if mine else 0.0
        largest = max(math.prod(r.shape) for node in step.nodes for r in _all(node))
        if self.units == 1 or largest < PARALLEL_ELEMENTS or not _shared(step):
            return 1, 1.0
        self.most_used = self.units
        self.start(self.machine.processors[1].name, math.prod(most_iterations(step.loops)))
        return self.units, 1 / self.units

    def rate(
        self, memory: Memory, active: int, *, writing: bool, past: bool = False
    ) -> float | None:
        """Bytes a second that each of some active units draws from a level."""
        whole = memory.bytes_per_second
        if past and memory.stream_bytes_per_second:
            return memory.stream_bytes_per_second / active
        if writing and memory.write_bytes_per_second:
            whole = memory.write_bytes_per_second
        if whole is None:
            self.unknown.add(f"the bandwidth of {memory.name}")
            return None
        # What one core has for itself it shares with nobody.
        if self.machine.depth(memory.visible_to) > 0:
            return whole
        alone = memory.unit_bytes_per_second or whole
        if writing and memory.bytes_per_second:
            # The file has what one unit reads: it writes as much slower as all units together do.
            alone *= whole / memory.bytes_per_second
        return min(alone, whole / active)

    def levels_of(
        self, size: float, distance: float, active: int
    ) -> Iterator[tuple[Memory, float]]:
        """Where bytes are found that were last used so many bytes ago, level by level."""
        levels = [m for m in reversed(self.machine.memories) if m.cached]
        for memory in levels:
            if not memory.capacity_bytes:
                continue
            apart = distance
            if self.machine.depth(memory.visible_to) == 0:
                # Others touch as much in a shared cache meanwhile, but no more than the program
                # has.
                apart = min(distance * active, max(self.everything, distance))
            least, most = (part * memory.capacity_bytes for part in RETAINED)
            kept = min(1.0, max(0.0, (most - apart) / (most - least)))
            if kept:
                yield memory, size * kept
                size *= 1 - kept
            if not size:
                return
        yield self.machine.main_memory, size


@dataclass
class _Work:
    """One step of the program, on one of the units that run it."""

    model: CacheModel
    step: TimedStep
    around: tuple[Nest, ...]
    active: int
    share: float
    """Of what the iterations of `CacheModel.trip_counts` do, where these are more than a unit's."""

    @property
    def _fused(self) -> frozenset[str]:
        """What the step computes for the next one, or takes from the one before, in registers."""
        return self.model.fused.get(id(self.step), frozenset())

    def instructions(self) -> float:
        """Seconds of what is computed."""
        total = 0.0
        for node in self.step.nodes:
            if isinstance(node, Copy):
                total += self._copied(node)
            elif node.primitive == "gemm":
                total += self._multiplied(node)
            else:
                total += self._mapped(node)
        return total

    def data(self) -> float:
        """Seconds of what is brought from and taken to the levels of memory."""
        total = 0.0
        for region, writing in self._regions():
            scale = self._part(region)
            if writing and region.buffer in self.model.streams:
                size = sum(u.size for u in self.model.reuse.uses(region, self.step, self.around))
                total += self._streamed_out(size * scale)
                continue
            for use in self.model.reuse.uses(region, self.step, self.around):
                total += self._transfer(use.size * scale, use.distance, writing=writing)
        for node in self.step.nodes:
            if isinstance(node, Compute) and node.primitive == "gemm":
                total += self._reread(node)
        return total

    def _regions(self) -> Iterator[tuple[Region, bool]]:
        """What the step reads and writes, but for rows that it hands on within itself."""
        own = self._own()
        written: set[str] = set()
        seen: set[tuple[Region, bool]] = set()
        for node in self.step.nodes:
            for region in reads(node):
                if region.buffer in own or region.buffer in written or (region, False) in seen:
                    continue
                seen.add((region, False))
                yield region, False
            for region in writes(node):
                written.add(region.buffer)
                if region.buffer not in own and (region, True) not in seen:
                    seen.add((region, True))
                    yield region, True

    def _own(self) -> set[str]:
        """Buffers that only this step of tensor expressions uses: rows of them stay in L1."""
        fused = set(self._fused)
        if not all(isinstance(n, Compute) and n.primitive != "gemm" for n in self.step.nodes):
            return fused
        mine = {
            name for name in {r.buffer for node in self.step.nodes for r in _all(node)}
            if self.model.users[name] == {id(self.step)}
        }  # fmt: skip
        return (mine - set(self.model.program.params)) | fused

    def _transfer(self, size: float, distance: float, *, writing: bool) -> float:
        """Seconds of bytes that were last used so far back.

        Those of the innermost cache are free here, as loads and stores count as instructions.
        """
        total = 0.0
        model = self.model
        first = model.machine.memories[-1]
        for memory, part in model.levels_of(size, distance, self.active):
            rate = model.rate(memory, self.active, writing=writing)
            if memory is first or not rate or not part:
                continue
            name = f"compute -> {memory.name}" if writing else f"{memory.name} -> compute"
            seconds = part / rate
            model.times.add("edge", name, part * self.active, seconds)
            total += seconds
        return total

    def _streamed_out(self, size: float) -> float:
        """Seconds of bytes that are written past the caches."""
        model, memory = self.model, self.model.machine.main_memory
        rate = model.rate(memory, self.active, writing=True, past=True)
        if not rate:
            return 0.0
        model.times.add("edge", f"compute -> {memory.name}", size * self.active, size / rate)
        return size / rate

    def _part(self, region: Region) -> float:
        """The elements that exist, of as many as full tiles would have, times the unit's share."""
        full = math.prod(most_iterations(self.step.loops)) * math.prod(region.shape)
        return self.share * self._amount(region)[1] / full if full else 0.0

    def _amount(self, region: Region) -> tuple[int, int]:
        """All calls, and the elements of a region in them."""
        return amount(region, self.step.loops)

    # ------------------------------------------------------------ instructions
    def _innermost_transfer(self, size: float, *, writing: bool) -> float:
        """Seconds of bytes between registers and the innermost cache."""
        memory = self.model.machine.memories[-1]
        rate = self.model.rate(memory, self.active, writing=writing)
        if not size or not rate:
            return 0.0
        name = f"compute -> {memory.name}" if writing else f"{memory.name} -> compute"
        self.model.times.add("edge", name, size * self.active, size / rate)
        return size / rate

    def _most_calls(self) -> float:
        """Calls of the step by one unit, were each loop as long as it can be."""
        return math.prod(self.model.trip_counts[x.variable] for x in self.step.loops) * self.share

    def _elements(self, region: Region, lanes: int = 1, along: int = -1) -> float:
        """Elements of all calls of one unit, one axis in whole vectors: the last one mostly."""
        along %= max(1, len(region.shape))
        steps = tuple(lanes if n == along else 1 for n in range(len(region.shape)))
        loops = self.step.loops
        points = tally(region.valid, region.shape, loops, steps)[1] * lanes
        return points * self._most_calls() / max(1, math.prod(most_iterations(loops)))

    def _width(self, region: Region) -> int:
        return itemsize(self.model.buffers[region.buffer].dtype)

    def _copied(self, node: Copy) -> float:
        lanes = self.model.registers.bytes // max(4, self._width(node.source))
        count = self._elements(node.source, min(lanes, max(1, node.source.shape[-1])))
        width = max(4, self._width(node.source))
        read = self._innermost_transfer(count * width, writing=False)
        return read + self._innermost_transfer(count * width, writing=True)

    def _mapped(self, node: Compute) -> float:
        """Operations on vectors, or the loads and stores around them."""
        instruction = instruction_of(self.model.machine, node)
        lanes = self.model.registers.bytes // 4
        ops = 0.0
        for cost, space in operations(node, instruction):
            along = vectors_along(node, space, lanes)
            wide = bool(space.shape) and space.shape[along] > 1
            ops += cost * self._elements(space, lanes if wide else 1, along)
        if node.primitive == "scan":
            ops += scan_steps(node, lanes) * self._elements(node.operands[1], lanes)
        width = register_width(node, self._width(node.operands[0]))
        rate = rate_of(self.model.machine, instruction, self._dtype(node))
        busy = 0.0
        if rate is None:
            self.model.unknown.add(f"the throughput of {node.instruction}")
        else:
            busy = ops / rate + self._gathered(node, rate)
            self.model.times.add("compute", node.instruction, ops * self.active, busy)
        read = sum(self._elements(r) * width for r in dict.fromkeys(reads(node)))
        held = self._innermost_transfer(read, writing=False)
        if node.operands[0].buffer not in self._fused:
            written = self._elements(node.operands[0]) * width
            held += self._innermost_transfer(written, writing=True)
        return max(busy, held)

    def _gathered(self, node: Compute, rate: float) -> float:
        """Seconds of loading elements that lie apart: one by one, or in blocks that are turned."""
        hertz = (self.model.machine.clock_mhz or 0.0) * 1e6
        lanes = self.model.registers.bytes // 4
        total = 0.0
        for region in dict.fromkeys(reads(node)):
            if not hertz or not lies_apart(region, vectors_along(node, region, lanes)):
                continue
            # As many vectors as each has lanes change places in so many steps.
            cost = math.log2(lanes) / rate if turns(node, region) else APART_CYCLES / hertz
            total += self._elements(region) * cost
        return total

    def _dtype(self, node: Compute) -> str:
        return self.model.buffers[node.operands[0].buffer].dtype

    def _shape(self, node: Compute) -> tuple[float, float, float]:
        """Rows, columns and steps of a product's call, on average."""
        c, a = node.operands[:2]
        calls, cells = self._amount(c)
        rows = cells / max(1, calls) / max(1, c.shape[1])
        steps = self._amount(a)[1] / max(1, calls) / max(rows, 1e-9)
        return rows, float(c.shape[1]), steps

    def _calls(self, node: Compute) -> float:
        """Calls of a product by one unit."""
        every = max(1, math.prod(most_iterations(self.step.loops)))
        return self._most_calls() * self._amount(node.operands[0])[0] / every

    def _tile(self, node: Compute) -> tuple[int, int, int]:
        """Rows and columns of the register tile, and columns of a vector."""
        instruction = instruction_of(self.model.machine, node)
        kept = self.model.registers
        rows, columns = kept.rows, kept.columns
        if instruction and instruction.tile:
            rows, columns = instruction.tile[:2]
        width = itemsize(accumulator_dtype(self._dtype(node)))
        lanes = max(1, kept.bytes // width)
        return rows, max(lanes, columns * 4 // width // lanes * lanes), lanes

    def _along_sum(self, node: Compute) -> bool:
        """Whether both operands of a product of floats lie along its sum.

        It is then done a row and as many columns as a vector has lanes at a time, in float32.
        """
        _, *sides = node.operands
        rows = all(self.model.buffers[r.buffer].layout.kind in ("row", "padded") for r in sides)
        along = (r.index[-1].coefficient(axis(n)) for r, n in zip(sides, (1, 0), strict=True))
        return rows and "float" in self._dtype(node) and all(step == 1 for step in along)

    def _dots(self, node: Compute) -> float:
        """Multiply-adds of vectors along the sum, each with a vector of B that is loaded for it."""
        machine = self.model.machine
        kind = accumulator_dtype(self._dtype(node))
        m, n, k = self._shape(node)
        _, _, lanes = self._tile(node)
        adds = m * n * math.ceil(k / lanes) * self._calls(node)
        loads = adds * (1 + 1 / lanes)
        plain = next((i for i in machine.instructions if (kind,) * 3 in i.dtypes), None)
        rate = rate_of(machine, plain or instruction_of(machine, node), kind)
        busy = 0.0
        if rate is None:
            self.model.unknown.add(f"the throughput of {node.instruction}")
        else:
            widened = WIDENING_OPERATIONS * loads if self._widens(node.operands[2]) else 0.0
            busy = 2 * lanes * (adds + widened) / rate
            work = 2 * m * n * k * self._calls(node) * self.active
            self.model.times.add("compute", node.instruction, work, busy)
        held = loads * lanes * self._width(node.operands[2])
        return max(busy, self._innermost_transfer(held, writing=False))

    def _widens(self, region: Region) -> bool:
        """Whether elements are 16-bit floats, which are multiplied as float32."""
        dtype = self.model.buffers[region.buffer].dtype
        return "float" in dtype and itemsize(dtype) == 2

    def _multiplied(self, node: Compute) -> float:
        """Multiply-adds of whole vectors, or the loads beside them."""
        if self._along_sum(node):
            return self._dots(node)
        instruction = instruction_of(self.model.machine, node)
        rows, columns, lanes = self._tile(node)
        m, n, k = self._shape(node)
        group = instruction.panels[1] if instruction and len(instruction.panels) > 1 else 1
        vectors, strips, panels = math.ceil(n / lanes), math.ceil(m / rows), math.ceil(n / columns)
        steps = math.ceil(k / group)
        rate = rate_of(self.model.machine, instruction, accumulator_dtype(self._dtype(node)))
        calls = self._calls(node)
        busy = 0.0
        if rate is None:
            self.model.unknown.add(f"the throughput of {node.instruction}")
        else:
            # What instructions do, in whole vectors and groups; the amount is what the product
            # needs.
            busy = 2 * m * vectors * lanes * steps * group / rate * calls
            if group == 1:
                # Of B a vector for every strip, of A an element for each row and panel.
                _, *sides = node.operands
                each = (m * panels, vectors * strips)
                widened = sum(c for r, c in zip(sides, each, strict=True) if self._widens(r))
                busy += 2 * WIDENING_OPERATIONS * widened * lanes * steps / rate * calls
            self.model.times.add(
                "compute", node.instruction, 2 * m * n * k * calls * self.active, busy
            )
        held = 0 if self._fused else vectors * strips
        # In each step vectors of B for every strip, and an element of each row of A for every
        # panel.
        loads = steps * (held + m * panels)
        loaded = loads * calls * self.model.registers.bytes
        return max(busy, self._innermost_transfer(loaded, writing=False))

    def _reread(self, node: Compute) -> float:
        """What a product reads again in a call: panels of B for each strip, A for each panel."""
        rows, columns, lanes = self._tile(node)
        if self._along_sum(node):
            rows, columns = 1, lanes
        m, n, k = self._shape(node)
        c, a, b = (self._width(r) for r in node.operands)
        calls = self._calls(node)
        strips, panels = math.ceil(m / rows), math.ceil(n / columns)
        panel = k * min(n, columns) * b + min(m, rows) * k * a
        block = m * k * a + k * min(n, columns) * b + m * min(n, columns) * c
        total = 0.0
        if not self._fused:
            total += self._transfer((strips - 1) * k * n * b * calls, panel, writing=False)
        return total + self._transfer((panels - 1) * m * k * a * calls, block, writing=False)


def _multiplies(node: Compute | Copy) -> bool:
    return isinstance(node, Compute) and node.primitive == "gemm"


def _shared(step: TimedStep) -> bool:
    """Whether all units share a step outside of loops over them; a product is one unit's."""
    return not any(map(_multiplies, step.nodes))


def _all(node: Compute | Copy) -> tuple[Region, ...]:
    return (*reads(node), *writes(node))


def _spread(
    tree: Nest, around: tuple[For, ...] = ()
) -> Iterator[tuple[tuple[For, ...], tuple[For, ...]]]:
    """Loops that share their iterations over the cores as one, and the loops around them."""
    for part in tree.parts:
        if not isinstance(part, Nest) or part.loop is None:
            continue
        if part.loop.kind != "parallel" or part.loop.processor is None:
            yield from _spread(part, (*around, part.loop))
            continue
        nest, inner = [part.loop], part
        while len(inner.parts) == 1 and isinstance(inner.parts[0], Nest):
            inner = inner.parts[0]
            if inner.loop is None or inner.loop.kind != "parallel":
                break
            nest.append(inner.loop)
        yield tuple(nest), around
