"""Instantiation of a resolved mapping as the first tile program, with its copies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from septran.errors import TileError
from septran.ir import expressions as ex
from septran.ir.atoms import table_name
from septran.ir.index import Index, Var
from septran.ir.primitives import PRIMITIVES
from septran.ir.views import View
from septran.location import Location
from septran.machine.model import NONE, Engine, Machine
from septran.mapping.extern.function import ordered
from septran.mapping.extern.name import EXTERN
from septran.mapping.keys import COPY, LAYOUTS
from septran.mapping.resolved import Instance, ResolvedMapping
from septran.task.check.computed_indices import index_tensors
from septran.task.check.definedness import Suspects, ranges_of, suspects
from septran.task.tree import (
    Allocate,
    Assign,
    Launch,
    Loop,
    Param,
    Primitive,
    Statement,
    TaskNode,
    TunableValue,
    statements,
)
from septran.tile.layouts import ROW, Layout
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    For,
    Node,
    Origin,
    Region,
    Remark,
    TileProgram,
)
from septran.tile.passes.layout.part_buffers import unused
from septran.tile.records import LoopSchedule
from septran.tile.verify.bijection import LayoutError


def request_of(instance: Instance) -> LoopSchedule:
    """Return the settings of one instance that passes read."""
    return LoopSchedule(
        instance.path,
        instance.settings,
        tuple((name, setting.value) for name, setting in sorted(instance.tunables.items())),
        tuple((primitive, setting.value) for primitive, setting in instance.rounded.items()),
    )


def asked_at(instance: Instance, tensor: str) -> Location | None:
    """Return the entry of the mapping that asks for a tensor's layout, None without one."""
    wanted = instance.settings.table(LAYOUTS).get(tensor)
    return wanted.where if wanted else None


def laid_out(machine: Machine, instance: Instance, tensor: str, shape: tuple[int, ...]) -> Layout:
    """Return the layout that the mapping asks for a tensor of a task; row where it says nothing.

    Raises LayoutError where no buffer of that shape, or no buffer of that machine, has it.
    """
    wanted = instance.settings.table(LAYOUTS).get(tensor)
    if wanted is None:
        return ROW
    try:
        layout = Layout.parse(wanted.value)
    except ValueError as error:
        raise LayoutError(str(error), wanted.where) from None
    if len(shape) < layout.least_rank:
        message = f"{layout} is for {layout.least_rank} axes or more, and {tensor} is {list(shape)}"
        raise LayoutError(message, wanted.where)
    if layout.kind == "swizzle" and not any("swizzle" in e.layouts for e in machine.engines):
        known = dict.fromkeys(kind for e in machine.engines for kind in e.layouts)
        hint = f"its engines know {', '.join(known)}"
        raise LayoutError(f"{machine.name} has no swizzles", wanted.where, hint=hint)
    return layout


class NoRouteError(TileError):
    """No engine of the machine moves data between two memories, directly or by others."""

    code = "SEP401"


def instantiate(resolved: ResolvedMapping) -> TileProgram:
    """Walk the task tree and copy each tensor wherever caller and callee hold it apart."""
    builder = _Builder(resolved)
    root = resolved.tree.root
    entry = resolved.instance(root.path)
    env = {p.name: builder.parameter(p, entry) for p in root.params}
    body = tuple(builder.run(root, env))
    remarks = tuple(
        Remark(d.kind, d.about, d.message, d.hint, d.where, "resolve") for d in resolved.decisions
    )
    return TileProgram(
        name=root.name,
        machine=resolved.machine,
        params=tuple(p.name for p in root.params),
        outputs=tuple(p.name for p in root.params if p.writes),
        scalars=resolved.tree.scalars,
        buffers=tuple(builder.buffers.values()),
        body=body,
        remarks=remarks,
        requests=tuple(request_of(i) for i in resolved.instances),
    )


@dataclass(frozen=True)
class _Held:
    """A tensor as a task sees it: where it is now, and where its caller keeps it."""

    here: Region
    home: Region
    """The region in the entry's tensor or a temporary, in which positions are counted."""

    def view(self, view: View) -> _Held:
        return _Held(self.here.compose(view), self.home.compose(view))


@dataclass
class _Builder:
    resolved: ResolvedMapping
    buffers: dict[str, Buffer] = field(default_factory=dict)
    level: str = ""
    """The level over whose units the loops around are spread; empty outside of such loops."""
    around: tuple[Var, ...] = ()
    """The indices of the parallel loops around the current statement."""

    @cached_property
    def partly(self) -> Suspects:
        """The temporaries that an iteration may leave in part to later ones."""
        root = self.resolved.tree.root
        return suspects(root, ranges_of(root))

    @cached_property
    def indices(self) -> frozenset[str]:
        """The tensors whose elements choose rows or count iterations, by their names in the tree.

        Their buffers have these names, as elements find them by it.
        """
        return index_tensors(self.resolved.tree.root)

    @property
    def machine(self) -> Machine:
        return self.resolved.machine

    def issuer(self, instance: Instance) -> str:
        """The level that carries out a task's nodes: the enclosing one, not the host outside."""
        own = instance.proc.value
        depth = self.machine.depth
        return self.level if self.level and depth(own) < depth(self.level) else own

    def parameter(self, param: Param, entry: Instance) -> _Held:
        setting = entry.mems.get(param.name)
        origin = Origin(
            entry.path,
            entry.name,
            param.location,
            setting.where if setting else None,
            f"{param.name} is a parameter of {entry.task}",
        )
        memory = self.machine.main_memory.name
        buffer = Buffer(
            param.name,
            memory,
            param.shape,
            param.dtype,
            ROW,
            1,
            param.name,
            origin,
            exists=() if all(v.is_constant for v in param.valid) else param.valid,
        )  # the caller's tensor is where the caller has it, whatever the mapping says
        self.buffers[param.name] = buffer
        region = Region.all_of(buffer, param.valid)
        return _Held(region, region)

    def run(self, task: TaskNode, env: dict[str, _Held]) -> Iterator[Node]:
        instance = self.resolved.instance(task.path)
        staged, after = self._stage_entry(task, instance, env) if task.level == 0 else ([], [])
        yield from staged
        body = _Body(self, task, instance, env)
        yield from [body.function()] if EXTERN in instance.bindings else body.nodes(task.body)
        yield from after

    def _stage_entry(
        self, task: TaskNode, instance: Instance, env: dict[str, _Held]
    ) -> tuple[list[Node], list[Node]]:
        """Return copies around the entry itself, where its mapping places a tensor elsewhere."""
        before: list[Node] = []
        after: list[Node] = []
        for param in task.params:
            held, copy_in, copy_out = self.stage(
                param, env[param.name], instance, instance, task.location
            )
            env[param.name] = held
            before, after = before + copy_in, copy_out + after
        return before, after

    def stage(
        self,
        param: Param,
        held: _Held,
        instance: Instance,
        caller: Instance,
        location: Location,
    ) -> tuple[_Held, list[Node], list[Node]]:
        """Return the argument in the memory that `param` needs, with the copies in and out."""
        wanted = instance.mems.get(param.name)
        source = self.buffers[held.here.buffer].memory
        if wanted is None or wanted.value in (NONE, source):
            return held, [], []
        rule = (
            f"{param.name} is {source} in {caller.name} and {wanted.value} in {instance.name}, "
            "so it is copied {way}"
        )
        origin = Origin(instance.path, instance.name, location, wanted.where, rule)
        route = self._route(source, wanted.value, param, instance, origin)
        here, copy_in, copy_out = held.here, list[Node](), list[Node]()
        for memory, engine_in, engine_out in route:
            buffer = self._fresh(param, here, memory, instance, origin)
            target = Region.all_of(buffer, here.valid)
            if param.reads:
                into = replace(origin, rule=rule.replace("{way}", "in"))
                copy_in.append(
                    Copy(
                        target, here, engine_in.name, self.issuer(instance), into,
                        optional=wanted.optional,
                    )
                )  # fmt: skip
            if param.writes:
                out = replace(origin, rule=rule.replace("{way}", "out"))
                name = (engine_out or engine_in).name
                # Results leave along the same route, backwards.
                copy_out.insert(0, Copy(here, target, name, self.issuer(instance), out))
            here = target
        return _Held(here, held.home), copy_in, copy_out

    def _fresh(
        self, param: Param, region: Region, memory: str, instance: Instance, origin: Origin
    ) -> Buffer:
        layout = laid_out(self.machine, instance, param.name, region.shape)
        tensor = self.buffers[region.buffer].tensor
        why = replace(origin, rule=f"holds {param.name} of {instance.task} in {memory}")
        name = unused(f"{param.name}_{memory}", {*self.buffers, *self.indices})
        asked = asked_at(instance, param.name)
        buffer = Buffer(
            name, memory, region.shape, param.dtype, layout, 1, tensor, why, asked, (),
            self.around,
        )  # fmt: skip
        self.buffers[name] = buffer
        return buffer

    def _route(
        self, source: str, target: str, param: Param, instance: Instance, origin: Origin
    ) -> list[tuple[str, Engine, Engine | None]]:
        """Return the memories to pass through, each with the engines in and out; shortest first."""
        setting = instance.settings.table(COPY).get(param.name)
        asked = setting.value if setting else None
        # Breadth-first search over memories finds a route with the fewest copies.
        paths: list[list[str]] = [[source]]
        seen = {source}
        while paths:
            path = paths.pop(0)
            if path[-1] == target:
                return [self._edge(a, b, param, asked) for a, b in itertools.pairwise(path)]
            for memory in self.machine.memories:
                if memory.name not in seen and self._joined(path[-1], memory.name, param):
                    seen.add(memory.name)
                    paths.append([*path, memory.name])
        edges = sorted({f"{a}->{b}" for engine in self.machine.engines for a, b in engine.moves})
        raise NoRouteError(
            f"no engine of {self.machine.name} moves {param.name} between {source} and {target}",
            origin.mapping or origin.logic,
            hint=f"edges: {', '.join(edges)}",
        )

    def _joined(self, a: str, b: str, param: Param) -> bool:
        # An edge need only go the ways that the parameter takes: in where it is read, out if
        # written.
        into = bool(self.machine.engines_for(a, b)) or not param.reads
        out = bool(self.machine.engines_for(b, a)) or not param.writes
        return into and out

    def _edge(
        self, a: str, b: str, param: Param, asked: str | None
    ) -> tuple[str, Engine, Engine | None]:
        into, out = self.machine.engines_for(a, b), self.machine.engines_for(b, a)
        # The machine file's first engine counts where the mapping names none that fits; a tensor
        # that is only written may have no way in at all.
        first = next((e for e in into if e.name == asked), into[0] if into else out[0])
        return b, first, out[0] if out else None

    def temporary(self, statement: Allocate, task: TaskNode, instance: Instance) -> Buffer:
        name, indices = statement.name, table_name(task.path, statement.name)
        place = instance.mems[name]
        # Whoever computes an address reads it there, whatever the mapping says.
        memory = self.machine.main_memory.name if indices in self.indices else place.memory
        origin = Origin(
            task.path,
            instance.name,
            statement.location,
            place.where,
            f"{name} is a temporary of {task.variant} in {memory}",
        )
        layout = laid_out(self.machine, instance, name, statement.shape)
        unique = indices
        if indices not in self.indices:
            unique = unused(name, {*self.buffers, *self.indices})
        asked, shape, dtype = asked_at(instance, name), statement.shape, statement.dtype
        kept = _loops_below(statement, task.body) if (task.path, name) in self.partly else ()
        buffer = Buffer(
            unique, memory, shape, dtype, layout, 1, name, origin, asked, kept,
            self.around,
        )  # fmt: skip
        self.buffers[unique] = buffer
        return buffer


@dataclass
class _Body:
    """Turns the statements of one task into nodes."""

    builder: _Builder
    task: TaskNode
    instance: Instance
    env: dict[str, _Held]

    def nodes(self, body: tuple[Statement, ...]) -> Iterator[Node]:
        for statement in body:
            match statement:
                case Allocate():
                    yield from self._allocate(statement)
                case Primitive():
                    yield self._primitive(statement)
                case Assign():
                    yield self._assign(statement)
                case Launch():
                    yield from self._launch(statement)
                case Loop() if Index() not in statement.extents:  # else nothing is done at all
                    yield self._loop(statement)

    def function(self) -> Compute:
        """Return the one node of a leaf that a function of the user's computes."""
        target, *others = ordered(self.task)
        operands = tuple(self.env[p.name].here for p in (target, *others))
        rule = f"{self.task.name} is computed by a function of one's own"
        node = self._compute(EXTERN, operands, (), self._origin(self.task.location, rule))
        return replace(node, accumulates=target.reads, meaning=self.task)

    def _origin(self, location: Location, rule: str, where: Location | None = None) -> Origin:
        place = where or self.instance.where
        return Origin(self.task.path, self.instance.name, location, place, rule)

    def _allocate(self, statement: Allocate) -> Iterator[Node]:
        buffer = self.builder.temporary(statement, self.task, self.instance)
        region = Region.all_of(buffer, statement.valid)
        self.env[statement.name] = _Held(region, region)
        if statement.fill is not None:
            origin = self._origin(
                statement.location, f"{statement.name} starts as {statement.fill:g}"
            )
            yield self._compute("fill", (region,), (("value", statement.fill),), origin)

    def _compute(
        self,
        primitive: str,
        operands: tuple[Region, ...],
        attributes: tuple[tuple[str, TunableValue], ...],
        origin: Origin,
    ) -> Compute:
        binding = self.instance.bindings.get(primitive)
        instruction = binding.value if binding else self._default(primitive)
        return Compute(
            primitive,
            operands,
            instruction,
            self.builder.issuer(self.instance),
            replace(origin, mapping=(binding and binding.where) or origin.mapping),
            attributes,
            accumulates=primitive in PRIMITIVES and PRIMITIVES[primitive].accumulates,
        )

    def _default(self, primitive: str) -> str:
        """Return the machine's first instruction for it, else its first ``map`` unit."""
        for kind in (primitive, "map"):
            for instruction in self.builder.machine.instructions:
                if instruction.primitive == kind:
                    return instruction.name
        return primitive

    def _primitive(self, statement: Primitive) -> Node:
        operands = tuple(self._held(v).here for v in statement.operands)
        name = "copy" if statement.name == "cast" else statement.name
        target, *rest = (self.builder.buffers[o.buffer] for o in operands)
        # Engines move bytes between memories: a conversion of types is a computation.
        if name == "copy" and rest[0].memory != target.memory and rest[0].dtype == target.dtype:
            engines = self.builder.machine.engines_for(rest[0].memory, target.memory)
            if engines:
                rule = f"{self.task.name} moves {rest[0].tensor} to {target.tensor}"
                origin = self._origin(statement.location, rule)
                proc = self.builder.issuer(self.instance)
                return Copy(operands[0], operands[1], engines[0].name, proc, origin)
        rule = f"{self.task.name} calls {statement.name}"
        origin = self._origin(statement.location, rule)
        return self._compute(name, operands, statement.attributes, origin)

    def _assign(self, statement: Assign) -> Compute:
        def place(leaf: ex.Expr) -> ex.Expr:
            match leaf:
                # Elements are read where they are staged, positions are counted in the caller's
                # tensor.
                case ex.Load():
                    return replace(leaf, view=self._held(leaf.view).here)
                case ex.Position():
                    return replace(leaf, view=self._held(leaf.view).home)
                case _:
                    return leaf

        value = ex.map_leaves(statement.value, place)
        operands = (self._held(statement.target).here, *_regions(value))
        rule = f"{self.task.name} computes {statement.target.tensor}"
        origin = self._origin(statement.location, rule)
        return replace(self._compute("map", operands, (), origin), expression=value)

    def _held(self, view: View) -> _Held:
        return self.env[view.tensor].view(view)

    def _launch(self, launch: Launch) -> Iterator[Node]:
        callee = self.builder.resolved.instance(launch.task.path)
        before: list[Node] = []
        after: list[Node] = []
        env: dict[str, _Held] = {}
        for param, argument in zip(launch.task.params, launch.arguments, strict=True):
            held, copy_in, copy_out = self.builder.stage(
                param, self._held(argument), callee, self.instance, launch.location
            )
            env[param.name] = held
            before, after = before + copy_in, copy_out + after
        yield from before
        yield from self.builder.run(launch.task, env)
        yield from after

    def _loop(self, loop: Loop) -> For:
        processor = self._spread(loop)
        around, level = self.builder.around, self.builder.level
        if loop.parallel:
            self.builder.around = (*around, *loop.variables)
        self.builder.level = processor or level
        body = tuple(self.nodes(loop.body))
        self.builder.around, self.builder.level = around, level
        kind = "parallel" if loop.parallel else "sequential"
        # From the innermost loop, of the last variable, outwards.
        for variable, extent in reversed(tuple(zip(loop.variables, loop.extents, strict=True))):
            what = f"over {processor}" if processor else f"on one {self.instance.proc.value}"
            rule = f"{self.task.name} iterates {variable} {what}"
            origin = self._origin(loop.location, rule)
            loop_node = For(variable, extent, kind, processor, body, origin)
            body = (loop_node,)
        return loop_node

    def _spread(self, loop: Loop) -> str | None:
        """Return the level whose units share a parallel loop: the outermost one launched inside."""
        if not loop.parallel:
            return None
        machine, own = self.builder.machine, self.instance.proc.value
        inner = [
            self.builder.resolved.instance(s.task.path).proc.value
            for s in statements(loop.body)
            if isinstance(s, Launch)
        ]
        deeper = [p for p in inner if machine.depth(p) > machine.depth(own)]
        return min(deeper, key=machine.depth) if deeper else None


def _loops_below(temporary: Allocate, body: tuple[Statement, ...]) -> tuple[Var, ...]:
    """Return the indices of all loops inside of the body in which a temporary begins."""
    if temporary in body:
        inner = (t.body for s in statements(body) if isinstance(s, Launch) for t in s.task.walk())
        return tuple(
            v
            for part in (body, *inner)
            for s in statements(part)
            if isinstance(s, Loop)
            for v in s.variables
        )
    loops = (s for s in body if isinstance(s, Loop))
    return tuple(v for loop in loops for v in _loops_below(temporary, loop.body))


def _regions(value: ex.Expr) -> tuple[Region, ...]:
    return tuple(view for view in ex.loads(value) if isinstance(view, Region))
