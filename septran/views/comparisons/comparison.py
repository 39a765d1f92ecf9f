"""Comparison of mappings: keys, stages, copies, bytes, predicted time."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from septran.argument_checks import write_text
from septran.format_units import size_text, time_text
from septran.mapping.keys import MEMS, SINGLE
from septran.mapping.resolved import Instance
from septran.tile.nodes import Copy
from septran.views.comparisons.runs import Make, Ran, run, timelines
from septran.views.explanation import Explanation, Unavailable
from septran.views.pictures.html import (
    Markup,
    details,
    diff,
    h,
    join,
    panel,
    paragraph,
    strong,
    table,
)
from septran.views.pictures.page import Section, page
from septran.views.progress import Job, Progress, in_background
from septran.views.stages import TITLES
from septran.views.text.movements import synchronises
from septran.views.text.outline import memory_text

ABSENT = "-"
"""What a table shows where a mapping has no such task or key."""


@dataclass(frozen=True)
class Difference:
    """One key of one task that the mappings give different values."""

    task: str
    """The task's path."""
    key: str
    """``proc``, ``mems.A``, ``tunables.block_M``, ``binding.gemm``, ..."""
    values: tuple[str, ...]
    """One for each mapping."""


@dataclass(frozen=True)
class Comparison:
    """One logic under several mappings, side by side; the first is the yardstick."""

    names: tuple[str, ...]
    """One for each mapping."""
    explanations: tuple[Explanation, ...]
    makes: tuple[Make, ...] = field(default=(), repr=False, compare=False)
    """What compiles each kernel; empty where the stages alone were given."""
    measured: tuple[Ran, ...] = field(default=(), repr=False, compare=False)

    @property
    def runs(self) -> tuple[Ran, ...]:
        """The measured runs of each mapping; without profiles before `measure`."""
        return self.measured or (Ran(reason="not measured"),) * len(self.names)

    def measure(self) -> Comparison:
        """The same with each kernel compiled and run on random tensors, where it can be here.

        Simulated machines count cycles and give a timeline; a kernel whose machine is not
        here keeps the reason.
        """
        if not self.makes:
            raise ValueError("made from finished stages: there is nothing to run")
        return replace(self, measured=tuple(run(make) for make in self.makes))

    def measure_in_background(self) -> Job[Comparison]:
        """`measure` beside the notebook: explore the job to watch and to cancel it.

        Cancelled, its result has the kernels that were measured until then.
        """
        if not self.makes:
            raise ValueError("made from finished stages: there is nothing to run")
        return in_background(self._measured, f"measuring {self.explanations[0].name}",
                             len(self.makes))  # fmt: skip

    def _measured(self, progress: Progress, keep: Callable[[Comparison], None]) -> None:
        found = [Ran(reason="cancelled")] * len(self.makes)
        keep(replace(self, measured=tuple(found)))
        for number in progress.track(range(len(self.makes))):
            progress.note = self.names[number]
            found[number] = run(self.makes[number])
            keep(replace(self, measured=tuple(found)))

    def explore(self) -> Any:
        """The interactive view of it, in a notebook."""
        from septran.views.live import explore

        return explore(self)

    def export_html(self, path: str | Path) -> Path:
        """Write the interactive view as one file that opens without a network or a notebook."""
        from septran.views.comparisons.data import comparison_data
        from septran.views.live import widgets

        title = f"{self.explanations[0].name} under {len(self.names)} mappings"
        return write_text(path, widgets("page").page(title, "comparison", comparison_data(self)))

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Keys with different values, aligned by task."""
        return tuple(_differences(self.explanations))

    def stage_diff(self, stage: str, other: int = 1) -> str:
        """A stage under the first mapping and under another, as a unified diff; may be ''."""
        texts = [_text(self.explanations[n].stage(stage)) for n in (0, other)]
        lines = difflib.unified_diff(
            texts[0].splitlines(), texts[1].splitlines(),
            self.names[0], self.names[other], lineterm="", n=2,
        )  # fmt: skip
        return "\n".join(lines)

    def figures(self) -> tuple[tuple[str, ...], ...]:
        """Rows of the table: a title, then one value for each mapping."""
        columns = [_figures(explanation) for explanation in self.explanations]
        if self.measured:
            columns = [{**c, **_measured(r)} for c, r in zip(columns, self.measured, strict=True)]
        titles = dict.fromkeys(title for column in columns for title in column)
        return tuple((t, *(column.get(t, ABSENT) for column in columns)) for t in titles)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON-ready data."""
        others = range(1, len(self.names))
        return {
            "mappings": list(self.names),
            "figures": {row[0]: list(row[1:]) for row in self.figures()},
            "differences": [
                {"task": d.task, "key": d.key, "values": list(d.values)} for d in self.differences
            ],
            "diffs": {
                self.names[n]: {stage: self.stage_diff(stage, n) for stage in TITLES}
                for n in others
            },
        }

    def to_pandas(self) -> Any:
        """The figures as a DataFrame, one column a mapping."""
        import pandas as pd  # late: it takes half a second

        rows = self.figures()
        index = [row[0] for row in rows]
        return pd.DataFrame([row[1:] for row in rows], index=index, columns=list(self.names))

    def __str__(self) -> str:
        parts = [f"{self.explanations[0].name}: {', '.join(self.names)}", ""]
        parts += _aligned([("", *self.names), *self.figures()])
        parts += ["", "Mappings", "--------"]
        rows = [(d.task, d.key, *d.values) for d in self.differences]
        parts += _aligned([("task", "key", *self.names), *rows]) if rows else ["no differences"]
        for n in range(1, len(self.names)):
            for stage, title in TITLES.items():
                heading = f"{title}: {self.names[0]} and {self.names[n]}"
                body = self.stage_diff(stage, n) or "no differences"
                parts += ["", heading, "-" * len(heading), body]
        return "\n".join(parts) + "\n"

    def __repr__(self) -> str:
        return f"<Comparison of {self.explanations[0].name}: {', '.join(self.names)}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Static HTML and text."""
        del include, exclude
        return {"text/html": str(self._panel()), "text/plain": str(self)}

    def save_html(self, path: str | Path) -> Path:
        """Write one page that holds everything and opens without a network."""
        title = f"{self.explanations[0].name} under {len(self.names)} mappings"
        return write_text(path, page(title, paragraph(", ".join(self.names)), self._sections()))

    def _panel(self) -> Markup:
        title = join([strong(self.explanations[0].name), f" under {len(self.names)} mappings"])
        return panel(title, *(details(s.title, s.body, open=s.open) for s in self._sections()))

    def _sections(self) -> list[Section]:
        figures = table(("", *self.names), self.figures(), self.names)
        rows = [(d.task, d.key, *d.values) for d in self.differences]
        keys = table(("task", "key", *self.names), rows) if rows else paragraph("no differences")
        sections = [
            Section("figures", "Figures", figures, open=True),
            Section("keys", f"Mappings ({_count(len(rows))})", keys, open=True),
        ]
        if pictures := timelines(self.names, self.measured):
            sections.insert(1, Section("timelines", "Timelines on one axis", pictures, open=True))
        for n in range(1, len(self.names)):
            for stage, title in TITLES.items():
                text = self.stage_diff(stage, n)
                note = f"{_changed(text)} lines differ" if text else "equal"
                head = f"{title}: {self.names[0]} and {self.names[n]} ({note})"
                sections.append(Section(f"{stage}_{n}", head, diff(text) if text else h("")))
        return sections


def _count(keys: int) -> str:
    return "1 key differs" if keys == 1 else f"{keys} keys differ"


def _changed(text: str) -> int:
    lines = text.splitlines()[2:]
    return sum(1 for line in lines if line[:1] in "+-")


def _text(stage: Any) -> str:
    # Why a stage is not there is no content that could differ.
    return "" if isinstance(stage, Unavailable) else str(stage)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    cells = ([c.ljust(w) for c, w in zip(row, widths, strict=True)] for row in rows)
    return ["  ".join(row).rstrip() for row in cells]


def _differences(explanations: Sequence[Explanation]) -> Iterator[Difference]:
    tables = [{i.path: i for i in e.mapping.instances} for e in explanations]
    for task in dict.fromkeys(path for known in tables for path in known):
        found = [known.get(task) for known in tables]
        if None in found:  # one row for a task that not all of them have
            texts = (f"{i.variant} on {i.proc}" if i else ABSENT for i in found)
            yield Difference(task, "task", tuple(texts))
        columns = [_keys(i) for i in found if i]
        for key in dict.fromkeys(key for column in columns for key in column):
            present = [column.get(key, _default(key)) for column in columns]
            if len(set(present)) > 1:
                values = iter(present)
                yield Difference(task, key, tuple(next(values) if i else ABSENT for i in found))


def _default(key: str) -> str:
    """Return what a key is where an instance does not give it."""
    return next((str(k.default) for k in SINGLE if k.path == key), ABSENT)


def _keys(instance: Instance) -> dict[str, str]:
    """Every key of an instance that says something, with its value as text."""
    found = {"variant": instance.variant}
    for key, name, setting in instance.rows():
        text = memory_text(instance, name) if key == MEMS.path else str(setting)
        found[f"{key}.{name}" if name else key] = text
    return found


def _figures(explanation: Explanation) -> dict[str, str]:
    prediction, found = explanation.prediction, explanation.movements
    bound = prediction.bound_by
    figures = {
        "machine": explanation.mapping.machine.name,
        "predicted time": time_text(prediction.seconds),
        "limited by": bound.name if bound else ABSENT,
        "copies": str(sum(1 for m in found if isinstance(m.node, Copy))),
        "waits and other synchronisation": str(sum(1 for m in found if synchronises(m.node))),
        "buffers": str(len(explanation.tile_program.buffers)),
    }
    for limit in sorted(prediction.limits, key=lambda limit: limit.name):
        if limit.kind == "edge":
            figures[f"bytes {limit.name}"] = size_text(limit.amount)
    return figures


def _measured(ran: Ran) -> dict[str, str]:
    """Return what a run adds to the figures."""
    if ran.profile is None:
        return {"measured": ran.reason}
    found = {"measured time": ABSENT if ran.seconds is None else time_text(ran.seconds)}
    return found | ({"measured cycles": f"{ran.cycles:,}"} if ran.cycles else {})


def labels(mappings: Sequence[Any]) -> tuple[str, ...]:
    """A different name for each mapping: its file's or its number."""
    names: list[str] = []
    for number, mapping in enumerate(mappings, 1):
        text = str(getattr(mapping, "file", "") or mapping)
        short = text.replace("\\", "/").rpartition("/")[2].removesuffix(".yaml")
        plain = short.removesuffix(".mapping")
        usable = plain and "\n" not in plain and len(plain) <= 60
        name = plain if usable else f"mapping {number}"
        names.append(name if name not in names else f"{name} ({number})")
    return tuple(names)
