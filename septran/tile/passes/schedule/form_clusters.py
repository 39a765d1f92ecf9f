"""Clusters: neighbouring blocks of a grid run at the same time and share copies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from septran.dtypes import itemsize
from septran.ir.index import Index, Var
from septran.mapping.keys import CLUSTER
from septran.tile.analyses.clusters import grid, same_for_all, shareable
from septran.tile.analyses.loops import bytes_of, walk
from septran.tile.nodes import Copy, For, Node, Remark, Role, TileProgram
from septran.tile.substitution import FreshNames, substitute

NAME = "form_clusters"


def form_clusters(program: TileProgram) -> TileProgram:
    """Where the mapping says `cluster`, put neighbours that copy the same tiles into clusters.

    A parallel loop is cut in two: one over clusters, and innermost in the nest one over the
    blocks of a cluster. Loops of whose blocks no two copy the same are left as they are.
    """
    work = _Clusters(program, FreshNames.of_loops(program.body))
    return replace(program, body=tuple(map(work.node, program.body))).remark(*work.remarks)


@dataclass
class _Clusters:
    program: TileProgram
    names: FreshNames

    def __post_init__(self) -> None:
        self.remarks: list[Remark] = []

    def node(self, node: Node) -> Node:
        if isinstance(node, For) and node.kind == "parallel" and node.processor is not None:
            request = self.program.request(node.origin.task)
            given = request.get(CLUSTER)
            cluster = (given,) if isinstance(given, int) else tuple(given)
            return self.form(node, cluster) if math.prod(cluster) > 1 else node
        if isinstance(node, For | Role):
            return replace(node, body=tuple(map(self.node, node.body)))
        return node

    def form(self, loop: For, cluster: tuple[int, ...]) -> For:
        nest = grid(loop)
        if not all(n.extent.is_constant for n in nest):
            self.remark("missed", loop, "`cluster` is for grids of loops of constant extent")
            return loop
        saved = [self.saved(nest, n) for n in range(len(nest))]
        sizes: dict[int, int] = {}
        if math.prod(cluster[: -len(nest)]) > 1:
            only = f"the grid has {len(nest)} loop{'s'[: len(nest) - 1]}"
            self.remark("no-effect", loop, f"`cluster` has no effect beyond that: {only}")
        for at, asked in self.asked(cluster, nest, saved).items():
            extent = nest[at].extent.as_int()
            # A grid consists of whole clusters (CUDA programming guide, thread block clusters).
            size = max(n for n in range(1, min(asked, extent) + 1) if extent % n == 0)
            if asked > 1 and not saved[at]:
                same = f"no copy is the same for all blocks along {nest[at].variable}"
                self.remark("no-effect", loop, f"`cluster: {asked}` has no effect: {same}")
            elif size < asked:
                message = (
                    f"`cluster: {asked}` along {nest[at].variable} is {size} here: there are "
                    f"{extent} blocks along it"
                )
                self.remark("missed", loop, message)
            if size > 1 and saved[at]:
                sizes[at] = size
        return self.cut(nest, sizes) if sizes and self.fits(loop, sizes) else loop

    def asked(
        self, cluster: tuple[int, ...], nest: Sequence[For], saved: Sequence[int]
    ) -> Mapping[int, int]:
        """The blocks asked for along each loop; one number goes to the loop that saves most."""
        if len(cluster) == 1:
            # A loop over one block has no neighbour to share with, however much that would save.
            several = [loop.extent.constant > 1 for loop in nest]
            return {max(range(len(nest)), key=lambda n: (several[n], saved[n])): cluster[0]}
        first = len(saved) - len(cluster)
        return {first + n: size for n, size in enumerate(cluster) if first + n >= 0 and size > 1}

    def fits(self, loop: For, sizes: Mapping[int, int]) -> bool:
        most = int(self.program.machine.vendor.get("clusters", 1))
        total = math.prod(sizes.values())
        if total > most:
            machine = self.program.machine.name
            self.remark(
                "missed", loop, f"no cluster of {total} blocks: {machine} has {most} at most"
            )
        return total <= most

    def saved(self, nest: Sequence[For], at: int) -> int:
        """Return the bytes that a block along one loop need not copy if it has a neighbour."""
        found = self.copies(nest)
        variable = nest[at].variable
        return sum(
            bytes_of(copy.source, itemsize(self.program.buffer(copy.source.buffer).dtype))
            * math.prod(max(1, loop.extent.constant) for loop in loops)
            for copy, loops in found
            if same_for_all(copy, loops, variable)
        )

    def copies(self, nest: Sequence[For]) -> Iterator[tuple[Copy, tuple[For, ...]]]:
        for node, loops in walk(nest[-1].body):
            if isinstance(node, Copy) and shareable(self.program, node):
                yield node, loops

    def cut(self, nest: Sequence[For], sizes: Mapping[int, int]) -> For:
        """Return the nest over clusters, and in it the loops over the blocks of one."""
        values: dict[Var, Index] = {}
        ranks: list[For] = []
        whole = [1] * len(nest)
        for at, size in sizes.items():
            rank = Var(self.names.fresh("rank"))
            values[nest[at].variable] = Index.of(nest[at].variable) * size + rank
            whole[at] = size
            rule = f"{size} blocks along {nest[at].variable} are a cluster: they share tiles"
            origin = replace(nest[0].origin, rule=rule)
            ranks.append(For(rank, Index.of(size), "parallel", nest[at].processor, (), origin))
        body = tuple(substitute(n, values) for n in nest[-1].body)
        for inner in reversed(ranks):
            body = (replace(inner, body=body, cluster=True),)
        for outer, size in zip(reversed(nest), reversed(whole), strict=True):
            outer = replace(outer, extent=Index.of(outer.extent.as_int() // size), body=body)
            body = (outer,)
        each = " x ".join(str(size) for size in whole)
        self.remark("decision", nest[0], f"clusters of {each} blocks share the tiles they copy")
        return outer

    def remark(self, kind: str, loop: For, message: str) -> None:
        where = loop.origin.mapping
        self.remarks.append(Remark(kind, loop.origin.task, message, None, where, NAME))
