"""A comparison of mappings as plain data for its interactive view."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from septran.runtime.roofline import peak_flops
from septran.runtime.work import work
from septran.tile.nodes import Barrier, Copy, Wait, nodes
from septran.views.explanation import Explanation, Unavailable
from septran.views.stages import TITLES

if TYPE_CHECKING:
    from septran.views.comparisons.comparison import Comparison
    from septran.views.comparisons.runs import Ran

CONTEXT = 3
"""Equal lines that are shown around each difference."""
MOST_LINES = 3000
"""Lines of one diff that are kept."""

Figure = dict[str, Any]


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """Everything that the view shows, JSON-ready; the first mapping is the yardstick."""
    found = comparison.explanations
    return {
        "title": found[0].name,
        "names": list(comparison.names),
        "machines": [e.mapping.machine.name for e in found],
        "figures": list(_figures(comparison)),
        "differences": [
            {"task": d.task, "key": d.key, "values": list(d.values)}
            for d in comparison.differences
        ],
        "tasks": [instance.path for instance in found[0].mapping.instances],
        "stages": [_stage(comparison, name) for name in TITLES],
        "memories": _memories(found),
        "edges": _edges(found),
        "roofline": [_roofline(e, ran) for e, ran in zip(found, comparison.runs, strict=True)],
        "runs": [{"seconds": r.seconds, "cycles": r.cycles, "reason": r.reason}
                 for r in comparison.runs],
        **_timelines(comparison),
    }  # fmt: skip


def _figure(title: str, unit: str, values: Sequence[float | int | None], better: str) -> Figure:
    return {"title": title, "unit": unit, "values": list(values), "better": better}


def _figures(comparison: Comparison) -> Iterator[Figure]:
    """Rows of numbers; `better` is ``less``, ``more`` or empty."""
    found, runs = comparison.explanations, comparison.runs
    predictions = [e.prediction for e in found]
    ledgers = [e.ledger for e in found]
    yield _figure("predicted time", "s", [p.seconds for p in predictions], "less")
    if any(p.cycles for p in predictions):
        yield _figure("predicted cycles", "", [p.cycles for p in predictions], "less")
        bounds = [p.bound.cycles if p.bound else None for p in predictions]
        yield _figure("least cycles", "", bounds, "less")
    if any(r.profile is not None for r in runs):
        yield _figure("measured time", "s", [r.seconds for r in runs], "less")
        if any(r.cycles for r in runs):
            yield _figure("measured cycles", "", [r.cycles for r in runs], "less")
        reached = [r.flops_per_second for r in runs]
        yield _figure("reached", "FLOP/s", reached, "more")
    yield _figure(
        "main memory traffic", "B", [found.main_memory_bytes for found in ledgers], "less"
    )
    yield _figure("times the least traffic", "", [found.ratio for found in ledgers], "less")
    yield _figure("exposed copies", "B", [_bytes(e, "exposed") for e in found], "less")
    yield _figure("hidden copies", "B", [_bytes(e, "hidden") for e in found], "")
    yield _figure("copies in the program", "", [_count(e, Copy) for e in found], "")
    yield _figure("waits and barriers", "", [_count(e, Wait | Barrier) for e in found], "less")
    yield _figure("buffers", "", [len(e.tile_program.buffers) for e in found], "")


def _bytes(explanation: Explanation, state: str) -> int:
    return sum(row.total_bytes for row in explanation.ledger.rows if row.state == state)


def _count(explanation: Explanation, kind: Any) -> int:
    return sum(isinstance(node, kind) for node in nodes(explanation.tile_program.body))


def _stage(comparison: Comparison, name: str) -> dict[str, Any]:
    """One stage under all mappings: the first one's text against each other's."""
    stages = [e.stage(name) for e in comparison.explanations]
    texts = ["" if isinstance(s, Unavailable) else str(s) for s in stages]
    missing = [s.reason if isinstance(s, Unavailable) else "" for s in stages]
    return {
        "name": name, "title": TITLES[name], "missing": missing,
        "lines": [len(text.splitlines()) for text in texts],
        "diffs": [_rows(texts[0], text) for text in texts[1:]],
    }  # fmt: skip


def _rows(left: str, right: str) -> list[list[Any]]:
    """Rows of [kind, left number, left text, right number, right text], with some context.

    The kind is ``=`` for equal, ``-``, ``+``, ``~`` for a line that changed, and ``.``
    where equal lines are left out, the number of which stands in the left number's place.
    """
    a, b = left.splitlines(), right.splitlines()
    # Without this, lines that are frequent (such as a closing bracket) are never matched.
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=max(len(a), len(b)) > MOST_LINES)
    rows: list[list[Any]] = []
    steps = matcher.get_opcodes()
    for number, (way, i, i_end, j, j_end) in enumerate(steps, 1):
        if way == "equal":
            rows += _equal(a, i, i_end, j, first=number == 1, last=number == len(steps))
        else:
            rows += _changed(a[i:i_end], b[j:j_end], i, j)
    return rows[:MOST_LINES] if any(row[0] not in "=." for row in rows) else []


def _equal(
    lines: Sequence[str], start: int, end: int, other: int, *, first: bool, last: bool
) -> Iterator[list[Any]]:
    head = 0 if first else CONTEXT
    tail = 0 if last else CONTEXT
    hidden = max(0, end - start - head - tail)
    for n in range(start, end):
        if hidden > 1 and start + head <= n < start + head + hidden:
            if n == start + head:
                yield [".", hidden, "", None, ""]
            continue
        yield ["=", n + 1, lines[n], other + n - start + 1, lines[n]]


def _changed(a: Sequence[str], b: Sequence[str], i: int, j: int) -> Iterator[list[Any]]:
    for n in range(max(len(a), len(b))):
        left = [i + n + 1, a[n]] if n < len(a) else [None, ""]
        right = [j + n + 1, b[n]] if n < len(b) else [None, ""]
        yield ["~" if n < len(a) and n < len(b) else "-" if n < len(a) else "+", *left, *right]


def _memories(found: Sequence[Explanation]) -> list[dict[str, Any]]:
    """For each planned memory, what each mapping uses of it at most; None where unused."""
    maps = [e.memory_map for e in found]
    names = dict.fromkeys(name for one in maps for name in one.memories)
    return [
        {
            "name": name,
            "used": [
                {"peak": one.peak(name), "capacity": one.capacity(name),
                 "buffers": [[h.buffer.name, h.offset, h.size] for h in one.memories[name]]}
                if name in one.memories else None
                for one in maps
            ],
        }
        for name in names
    ]  # fmt: skip


def _edges(found: Sequence[Explanation]) -> list[dict[str, Any]]:
    """Bytes along each memory edge, as the model counts them: copies and what is in place."""
    columns = [
        {limit.name: limit.amount for limit in e.prediction.limits if limit.kind == "edge"}
        for e in found
    ]
    names = dict.fromkeys(name for column in columns for name in column)
    return [{"name": name, "bytes": [c.get(name) for c in columns]} for name in names]


def _roofline(explanation: Explanation, ran: Ran) -> dict[str, Any]:
    """The roofs of a mapping's machine, and its point below them."""
    program = explanation.tile_program
    done = work(explanation.task_tree)
    traffic = explanation.ledger.main_memory_bytes or done.bytes_moved
    seconds = explanation.prediction.seconds
    return {
        "peak": peak_flops(program, done.operations),
        "bandwidth": program.machine.main_memory.bytes_per_second,
        "intensity": done.flops / traffic if traffic else None,
        "predicted": done.flops / seconds if seconds else None,
        "measured": done.flops / ran.seconds if ran.seconds else None,
    }


def _timelines(comparison: Comparison) -> dict[str, Any]:
    """The runs of simulated machines on one axis: cycles, or microseconds if clocks differ."""
    from dataclasses import replace

    from septran.views.dsa.timeline import timeline

    pairs = [
        (name, ran.profile)
        for name, ran in zip(comparison.names, comparison.runs, strict=True)
        if ran.cycles is not None
    ]
    clocks = {profile.run.machine.clock_mhz for _, profile in pairs}
    found = [timeline(profile, name) for name, profile in pairs]
    if len(clocks) > 1:
        scales = [profile.run.machine.clock_mhz or 1 for _, profile in pairs]
        found = [
            replace(
                one, unit="us", end=one.end / scale,
                records=tuple(replace(r, start=r.start / scale, end=r.end / scale)
                              for r in one.records),
            )
            for one, scale in zip(found, scales, strict=True)
        ]  # fmt: skip
    return {"timelines": [one.to_dict() for one in found]}
