"""A profile as the JSON of Chrome's trace format, which Perfetto opens.

A core is a process, a queue a thread (viewers cannot show what overlaps on one thread, so
copies that do are on further ones of the same name); a command is a complete event with its origin,
bytes and operations; a flag is an instant where it is set, a span where it is waited for,
and an arrow from the one to the other. A microsecond of the viewer is a cycle.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from septran.argument_checks import write_text
from septran.simulator import CAUSES
from septran.simulator.commands import CODES
from septran.targets.dsa.profiles.lanes import CONTROL, NAMES

if TYPE_CHECKING:
    from septran.targets.dsa.profiles.profile import DsaProfile

Event = dict[str, Any]
Array = np.ndarray[Any, Any]
_WIDTH = 16
"""Threads of one queue at most."""
_SET, _WAIT = CODES["dsa.set_flag"], CODES["dsa.wait_flag"]


def write(profile: DsaProfile, path: str | Path) -> Path:
    """Write the trace to `path`."""
    return write_text(path, json.dumps(trace(profile)))


def trace(profile: DsaProfile) -> dict[str, Any]:
    """The whole document."""
    threads = _threads(profile.run.trace)
    events = [*_names(profile, threads), *_commands(profile, threads), *_arrows(profile, threads)]
    facts = {"kernel": profile.name, "machine": profile.machine, "cycles": profile.cycles}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": facts}


def _threads(trace: Array) -> Array:
    """A thread a command: that of its queue, or the next that is free when it starts.

    The control core's queue is -1, so its thread is 0, the first.
    """
    threads = (trace["queue"].astype(np.int64) + 1) * _WIDTH
    free: dict[int, list[int]] = defaultdict(list)
    starts, ends, cores = (trace[name].tolist() for name in ("start", "end", "core"))
    for n in np.lexsort((np.arange(len(trace)), trace["start"])).tolist():
        if not _is_span(trace[n]):
            continue
        until = free[cores[n] << 32 | int(threads[n])]
        place = next((k for k, at in enumerate(until) if at <= starts[n]), len(until))
        if place == len(until):
            until.append(0)
        until[place] = ends[n]
        # Of more that overlap, the rest share the last thread: the next number is another queue's.
        threads[n] += min(place, _WIDTH - 1)
    return threads


def _is_span(record: Any) -> bool:
    """Whether it is drawn with a length: flags are only where they are waited for."""
    return bool(record["command"] != _SET and (record["command"] != _WAIT or record["flag"] > 0))


def _names(profile: DsaProfile, threads: Array) -> Iterator[Event]:
    titles = {-1: CONTROL} | dict(enumerate(profile.run.queues))
    records = profile.run.trace
    for core in sorted(set(records["core"].tolist())):
        common = {"ph": "M", "pid": core}
        yield common | {"name": "process_name", "args": {"name": f"core {core}"}}
        for number in sorted(set(threads[records["core"] == core].tolist())):
            thread = common | {"tid": number}
            title = titles[number // _WIDTH - 1]
            yield thread | {"name": "thread_name", "args": {"name": title}}
            yield thread | {"name": "thread_sort_index", "args": {"sort_index": number}}


def _commands(profile: DsaProfile, threads: Array) -> Iterator[Event]:
    moved = profile.movement
    for n, record in enumerate(profile.run.trace):
        start, end = int(record["start"]), int(record["end"])
        name = NAMES[record["command"]]
        facts = {"origin": profile.origin(int(record["line"])), "line": int(record["line"])}
        facts |= {key: int(record[key]) for key in ("issue", "bytes", "flops")}
        facts |= {f"stall_{cause}": int(record[cause]) for cause in CAUSES if record[cause]}
        ways = {"edge": moved.edge[n], "tensor": moved.tensor[n], "channel": moved.channel[n]}
        facts |= {key: text for key, text in ways.items() if text}
        shown = f"{name} {moved.tensor[n]}".rstrip()
        event = {"name": shown, "cat": name, "pid": int(record["core"]), "args": facts}
        event |= {"tid": int(threads[n]), "ts": start}
        if record["command"] == _SET:
            yield event | {"ph": "i", "s": "t", "ts": end}
        elif _is_span(record):
            yield event | {"ph": "X", "dur": end - start}


def _arrows(profile: DsaProfile, threads: Array) -> Iterator[Event]:
    """From each set_flag to the wait_flag that takes it: the first that is left of its flag."""
    trace, stream = profile.run.trace, profile.stream
    open_sets: dict[tuple[int, ...], deque[int]] = defaultdict(deque)
    for n in range(len(trace)):  # program order, in which both ends of a flag are counted
        code = int(trace["command"][n])
        if code not in (_SET, _WAIT):
            continue
        key = (int(trace["core"][n]), *stream["arguments"][n][:3].tolist())
        if code == _SET:
            open_sets[key].append(n)
        elif open_sets[key]:
            first = open_sets[key].popleft()
            if trace["flag"][n]:  # an arrow for every flag would hide those that matter
                common = {"name": "flag", "cat": "flag", "id": first, "pid": key[0]}
                for phase, at, more in (("s", first, {}), ("f", n, {"bp": "e"})):
                    place = {"tid": int(threads[at]), "ts": int(trace["end"][at])}
                    yield common | {"ph": phase} | place | more
