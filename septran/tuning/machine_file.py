"""A machine file of what was measured: it extends a shipped one, whose mapping it keeps.

Each figure has a comment that says how it was found and how far its rounds were apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from septran.format_units import size_text
from septran.machine.model import Machine
from septran.tuning.caches import Level
from septran.tuning.probes import ROUNDS, RUNS, Figure
from septran.tuning.survey import Survey


def machine_text(survey: Survey, day: str) -> str:
    """The file's text; `day` says when it was measured."""
    parts = (_head(survey, day), _processors(survey), _memories(survey), _instructions(survey))
    return "\n".join("\n".join(part) + "\n" for part in parts)


def _head(survey: Survey, day: str) -> Iterator[str]:
    machine = survey.machine
    many = "s" if survey.cores > 1 else ""
    yield f"# {machine.name} as measured on {survey.host} with {survey.cores} core{many}, {day},"
    yield f"# by `septran machines {machine.name} --measure`. Each figure is the median of {ROUNDS}"
    yield f"# rounds, the best of {RUNS} runs in each; +- is half the distance of the least and the"
    yield "# greatest round. What is not here is as in the file that this one extends."
    yield f"name: {machine.name}    # by which it has the mapping that comes with SepTran"
    yield f"extends: {machine.name}"
    yield "arch: native"
    mhz = survey.clock.value / 1e6
    yield f"clock_mhz: {mhz:.0f}    # operations that wait for one another; {_spread(survey.clock)}"


def _processors(survey: Survey) -> Iterator[str]:
    host, *inner = survey.machine.processors
    yield "processors:"
    yield f"  # the call of a kernel on four elements; {_spread(survey.call)}"
    yield f"  {host.name}: {{launch: {_nanoseconds(survey.call)}}}"
    if survey.launch is not None and inner:
        yield f"  # a loop of one store on each of {survey.cores} cores; {_spread(survey.launch)}"
        yield f"  {inner[0].name}: {{launch: {_nanoseconds(survey.launch)}}}"
    elif inner:
        yield f"  {inner[0].name}: {{launch: 0ns}}    # a single core waits for no other"


def _memories(survey: Survey) -> Iterator[str]:
    machine = survey.machine
    yield "memories:    # loops of vectors over half of each cache, on one core and on all"
    for level in reversed(survey.levels):
        yield from _level(level, machine)


def _level(level: Level, machine: Machine) -> Iterator[str]:
    shared = machine.depth(machine.memory(level.name).visible_to) == 0
    rates = level.all if shared else level.one
    if level.size is not None:
        reported = "nothing" if level.reported is None else size_text(level.reported)
        found = "nothing" if level.found is None else size_text(level.found)
        yield f"  # {level.name}: capacity: the times show {found}, the system reports {reported}"
    else:
        yield f"  # {level.name}:"
    yield f"  #   latency: loads in random order that wait for each other; {_spread(level.latency)}"
    for what, one in _each(level):
        yield f"  #   {what}: {one}"
    known = [f"capacity: {size_text(level.size).replace(' ', '')}"] if level.size else []
    known += [f"latency: {level.latency.value * 1e9:.3g}ns"]
    known += [f"bandwidth: {_gigabytes(rates.read)}", f"write_bandwidth: {_gigabytes(rates.write)}"]
    if rates.stream is not None:
        known += [f"stream_bandwidth: {_gigabytes(rates.stream)}"]
    if shared:
        known += [f"unit_bandwidth: {_gigabytes(level.one.read)}"]
    yield f"  {level.name}: {{{', '.join(known)}}}"


def _each(level: Level) -> Iterator[tuple[str, str]]:
    """Each rate on one core and on all."""
    for what in ("read", "write", "copy", "stream"):
        one, every = getattr(level.one, what), getattr(level.all, what)
        if one is not None and every is not None:
            yield (
                what,
                (
                    f"one core {_gigabytes(one)} {_spread(one)}, "
                    f"all {_gigabytes(every)} {_spread(every)}"
                ),
            )


def _instructions(survey: Survey) -> Iterator[str]:
    yield "instructions:    # sums in registers that do not wait for one another"
    clock = survey.clock.value
    for name, (one, every) in survey.instructions.items():
        mapped = survey.machine.instruction(name).primitive == "map"
        unit = "elements/cycle" if mapped else "FMA/cycle"
        wide = ""
        if name == "fma_microkernel" and survey.wide is not None:
            wide = f"; float64: {survey.wide.value / clock:.3g}"
        each = f"{every.value / clock:.3g} each {_spread(every)}"
        yield f"  # {_spread(one)}; on all cores {each}{wide}"
        rate = f"throughput: {one.value / clock:.3g} {unit}"
        if not mapped:
            yield f"  {name}: {{{rate}}}"
            continue
        yield f"  {name}:"
        yield f"    {rate}"
        yield "    costs:    # operations of kernels' own code of each function"
        for function, cost in survey.costs.items():
            yield f"      {function}: {cost.value:.3g}    # {_spread(cost)}"
    if survey.lacking:
        yield f"  # not on this host: {', '.join(survey.lacking)}"


def _spread(figure: Figure) -> str:
    return f"+-{figure.spread / 2:.0%}"


def _gigabytes(figure: Figure) -> str:
    return f"{figure.value / 1e9:.3g}GB/s"


def _nanoseconds(figure: Figure) -> str:
    return f"{figure.value * 1e9:.0f}ns"
