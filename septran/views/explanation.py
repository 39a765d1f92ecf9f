"""The result of `septran.explain`: every stage, and the reason of each thing in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.argument_checks import write_text
from septran.errors import SepTranError, nearest
from septran.targets.base import Source
from septran.tile.ledger import Ledger, ledger
from septran.tile.pipeline import PassResult, place
from septran.tuning.model import Prediction, least_cycles, predict
from septran.views.maps.access_map import AccessMap, access_map
from septran.views.maps.element import Journey, follow
from septran.views.maps.layout_map import LayoutMap, layout_map
from septran.views.maps.memory_map import MemoryMap
from septran.views.stages import TITLES
from septran.views.text import movements as moving
from septran.views.text.plain import plain, stage_data
from septran.views.text.remarks import Noted, remarks_text
from septran.views.text.source_parts import NoPartError, part_text, source_text
from septran.views.text.wrapping import wrapped

if TYPE_CHECKING:
    from septran.mapping.resolved import ResolvedMapping
    from septran.task.tree import TaskTree
    from septran.tile.nodes import TileProgram

EARLY = ("task_tree", "mapping", "tile_program")
"""Stages that exist for every machine, made at once; the others need a code generator."""

REST_HEAD = "More, in Python          in a shell            what it is"
REST = """\
.report()                --format report       what limits the kernel, which mapping keys move it
.movements               --stage tile_program  every copy and wait with its reason
.passes                  --passes              the tile program after each pass
.tensor_ir, .source      --stage source        what TVM compiles, and the generated code
.part("ptx")             --part ptx            assembly, where the machine has some
.tilelang                --stage tilelang      a GPU's kernel as a TileLang program
.text(), .save_html(at)  --format full, html   all of it
"""
"""What `str` of an explanation leaves out, and where it is."""

_FOLDERS = re.compile(r"(?<![\w./-])[\w./-]+/(?=[\w.-]+\.(?:py|ya?ml):\d)")
"""The folders of places, which `str` of an explanation has no room for; `text` has them."""

Again = Callable[[Mapping[str, Any]], "TileProgram"]
"""The tile program with some tunables changed."""


def _headed(title: str, body: str, line: str) -> str:
    return f"{title}\n{line * len(title)}\n{body.rstrip()}\n"


@dataclass(frozen=True)
class Unavailable:
    """A stage that cannot be made here, with the reason."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"not available: {self.reason}"


class Explanation:
    """All stages of one compilation as text, HTML and data.

    Nothing is run, and the stages before TensorIR need no code generator: a mapping for a
    machine that is not here can be explained like any other.
    """

    def __init__(self, stages: Any, again: Again | None = None) -> None:
        """`stages` has the five stages as attributes, made when they are read."""
        self._stages = stages
        self._again = again
        self._late: dict[str, Any] = {}
        for name in EARLY:  # mistakes of the logic or the mapping are raised here
            getattr(stages, name)

    @property
    def name(self) -> str:
        """The entry task's name."""
        return self.task_tree.name

    @property
    def task_tree(self) -> TaskTree:
        """The task tree: the computation without hardware."""
        tree: TaskTree = self._stages.task_tree
        return tree

    @property
    def mapping(self) -> ResolvedMapping:
        """The resolved mapping: the processor of each task, the memory of each tensor."""
        mapping: ResolvedMapping = self._stages.mapping
        return mapping

    @property
    def tile_program(self) -> TileProgram:
        """Every copy, wait and computation on tiles."""
        program: TileProgram = self._stages.tile_program
        return program

    @property
    def tensor_ir(self) -> Any:
        """The TensorIR that TVM compiles, or the reason why it cannot be made."""
        return self.stage("tensor_ir")

    @property
    def source(self) -> Any:
        """The generated code, or why it cannot be made."""
        return self.stage("source")

    @cached_property
    def tilelang(self) -> Source:
        """The tile program as a TileLang program; raises UnsupportedByTileLangError.

        A Python module with one ``T.prim_func``, for GPUs. It is made of the same logic and
        mapping, before pipelines and waits are: TileLang makes those itself.
        """
        from septran.targets.tilelang.module import write_tilelang  # late: needs TVM

        return Source(self.name, "python", write_tilelang(self.mapping, self.tile_program))

    def stage(self, name: str) -> Any:
        """A stage by name; an `Unavailable` where it cannot be made here."""
        if name not in TITLES:
            raise KeyError(f"no stage {name!r}; {nearest(name, TITLES)}")
        if name in EARLY:
            return getattr(self._stages, name)
        if name not in self._late:
            self._late[name] = self._made(name)
        return self._late[name]

    def _made(self, name: str) -> Any:
        try:
            return getattr(self._stages, name)
        except SepTranError as error:
            hint = f" ({error.hint})" if error.hint else ""
            return Unavailable(name, f"{error.message}{hint}")
        except ImportError as error:
            return Unavailable(name, f"{error.name or error} is not installed")

    def stages(self) -> Iterator[tuple[str, Any]]:
        """All five by name, in order."""
        for name in TITLES:
            yield name, self.stage(name)

    @property
    def movements(self) -> tuple[moving.Movement, ...]:
        """Every copy and synchronisation with its reason."""
        return moving.movements(self.tile_program)

    @property
    def remarks(self) -> tuple[Noted, ...]:
        """The remarks of resolution, passes and, once they have run, code generators."""
        found: dict[tuple[str, str, str], Noted] = {}
        every: list[Noted] = [*self.mapping.decisions, *self.tile_program.remarks]
        if "tensor_ir" in self._stages.made:
            every += self.code_remarks
        for remark in every:
            # The tile program carries the decisions of the resolution on.
            found.setdefault((remark.kind, remark.about, remark.message), remark)
        return tuple(found.values())

    @property
    def code_remarks(self) -> tuple[Noted, ...]:
        """The remarks of the code generator: its decisions, and what it could not do."""
        found: tuple[Noted, ...] = getattr(self.tensor_ir, "remarks", ())
        return found

    @cached_property
    def passes(self) -> tuple[PassResult, ...]:
        """The tile program as each pass left it."""
        return place(self.mapping, passes=getattr(self._stages, "passes", ()))

    @cached_property
    def ledger(self) -> Ledger:
        """The bytes that move along each memory edge, with reasons."""
        return ledger(self.tile_program)

    @cached_property
    def memory_map(self) -> MemoryMap:
        """The buffers of each memory over the program, against its capacity."""
        return MemoryMap(self.tile_program)

    def follow(self, tensor: str, *at: int) -> Journey:
        """The way of one element: its tile, its tasks, every copy it takes, by address."""
        return follow(self.tile_program, tensor, at)

    def layout(self, buffer: str) -> LayoutMap:
        """Return the address of each element of a tile program's buffer, or its thread."""
        held = any(b.name == buffer and b.memory == "REGISTER" for b in self.tile_program.buffers)
        holdings = getattr(self.tensor_ir, "holdings", ()) if held else ()
        return layout_map(self.tile_program, buffer, holdings)

    def accesses(self, **block: int) -> AccessMap:
        """Return what one block touches, step by step; a block is named by its loop indices."""
        return access_map(self.tile_program, **block)

    @cached_property
    def prediction(self) -> Prediction:
        """The prediction of the performance model."""
        return predict(self.tile_program)

    def what_if(self, tunables: Mapping[str, Any]) -> Prediction:
        """The prediction with some tunables changed; raises what the mapping then does."""
        if self._again is None:
            raise ValueError("made from finished stages: nothing can be changed")
        return predict(self._again(tunables))

    def text(self, stage: str | None = None) -> str:
        """One stage, all of them under headings, or ``tilelang``, a program for TileLang."""
        if stage is None:
            return "\n".join(self._section(n, name) for n, name in enumerate(TITLES, 1))
        return str(self.tilelang) if stage == "tilelang" else self._body(stage)

    def _section(self, number: int, name: str) -> str:
        return _headed(f"{number}. {TITLES[name]}", self._body(name), "=")

    def _body(self, name: str) -> str:
        stage = self.stage(name)
        if isinstance(stage, Source):
            return source_text(stage, self.code_remarks)
        text = str(stage).rstrip("\n") + "\n"
        if name == "tile_program":
            text += "\n" + _headed("Copies and waits", moving.to_text(self.tile_program), "-")
            text += "\n" + self._figures()
        return text

    def _figures(self) -> str:
        moved = f"{str(self.ledger).rstrip()}\n"
        bound = least_cycles(self.tile_program)
        if bound is not None:
            moved += f"{bound}\n"
        remarks = _headed("Remarks", remarks_text(self.remarks), "-")
        return f"{_headed('Data movement', moved, '-')}\n{remarks}"

    def part(self, name: str) -> str:
        """A part of the source: ``ptx`` or ``sass`` of CUDA; raises NoPartError."""
        source = self.source
        if isinstance(source, Unavailable):
            raise NoPartError(f"{self.name} has no source here: {source.reason}")
        return part_text(source, name)

    def report(self) -> str:
        """At most 120 lines: what limits the kernel, and which mapping keys move it."""
        from septran.views.text.report import report

        return report(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON-ready data."""
        stages = {
            name: {"stage": name, "unavailable": stage.reason}
            if isinstance(stage, Unavailable)
            else stage_data(stage)
            for name, stage in self.stages()
        }
        limits = [{**plain(limit), "rate": limit.rate} for limit in self.prediction.limits]
        bound, schedule = self.prediction.bound, self.prediction.schedule
        prediction = {
            "seconds": self.prediction.seconds,
            "limits": limits,
            "bound": None if bound is None else bound.to_dict(),
            "schedule": None if schedule is None else schedule.to_dict(),
        }
        return {
            "name": self.name, "machine": self.mapping.machine.name, "stages": stages,
            "ledger": plain(self.ledger), "remarks": plain(self.remarks),
            "prediction": prediction, "report": self.report(),
        }  # fmt: skip

    def save_html(self, path: str | Path) -> Path:
        """Write one page that holds everything and opens without a network."""
        from septran.views.panels.explanation import explanation_page

        return write_text(path, explanation_page(self))

    def explore(self) -> Any:
        """All stages in linked panes, live in a notebook (``septran[notebook]``)."""
        from septran.views.live import explore

        return explore(self)

    def __str__(self) -> str:
        """The stages before code, what moves and the remarks; the rest is named, as it is long."""
        early = (
            _headed(f"{n}. {TITLES[name]}", str(self.stage(name)), "=")
            for n, name in enumerate(EARLY, 1)
        )
        text = "\n".join([*early, self._figures(), _headed(REST_HEAD, REST, "-")])
        return wrapped(_FOLDERS.sub("", text))

    def __repr__(self) -> str:
        return f"<Explanation of {self.name} on {self.mapping.machine.name}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Static HTML; the text is the bounded report, to keep notebooks small."""
        from septran.views.panels.explanation import explanation_panel

        del include, exclude
        return {"text/html": str(explanation_panel(self)), "text/plain": self.report()}
