"""Queues, flags and loops of the clock, by hand arithmetic; skipped loops beside walked ones."""

from __future__ import annotations

import pytest

from septran.simulator.errors import SimulatedDeadlockError, SimulationError
from septran.timing import steps
from septran.timing.clock import Clock, Cost
from septran.timing.schedule import schedule_of
from septran.timing.steady import Steady
from septran.timing.steps import BranchStep, CommandStep, FlagStep, Meet, Name, Repeat, run


def number(value):
    return lambda values: value


def work(queue, cost):
    return CommandStep(number(queue), number(("work", queue)), number(cost))


def flag(sets, source, target, at=0):
    where = at if callable(at) else number(at)
    return FlagStep(sets, number(source), number(target), where)


def clock(**more):
    return Clock([("in", 8), ("unit", 8)], 4.0, **more)


def timed(body, places=1):
    found = clock()
    run(tuple(body), [0] * places, found)
    return found


COPY = Cost(10.0, lead=10.0, pipe=0, shared=32.0, rate=4.0)
"""8 cycles on the port, 10 more until the last byte has landed."""
SUM = Cost(7.0)


def test_commands_of_a_queue_follow_one_another():
    found = timed([work(1, SUM), work(1, SUM)])
    # Issued at 1, then one after the other.
    assert found.cycles == 1 + 7 + 7
    assert found.lanes[1].busy == 14


def test_copies_of_one_edge_hide_their_latency():
    assert timed([work(0, COPY)]).cycles == 1 + 8 + 10
    assert timed([work(0, COPY)] * 3).cycles == 1 + 3 * 8 + 10


def test_a_flag_waits_for_all_before_it():
    found = timed([work(0, COPY), flag(True, 0, 1), flag(False, 0, 1), work(1, SUM)])
    assert found.cycles == 19 + 7
    # It came to the head of its queue at cycle 3, as the third command.
    assert found.lanes[1].waits == {0: 19 - 3}


def test_two_queues_share_the_port():
    other = Cost(0.0, pipe=1, shared=32.0, rate=4.0)
    alone = timed([work(1, other)]).cycles
    both = timed([work(0, COPY), work(1, other)])
    assert alone == 1 + 8
    assert both.cycles > 19
    assert both.lanes[1].crowded > 0


def test_the_control_core_waits_for_room():
    found = timed([work(1, SUM)] * 12)
    assert found.full > 0
    assert found.cycles == 1 + 12 * 7


def test_a_meeting_waits_for_all_queues():
    found = timed([work(0, COPY), Meet(), work(1, SUM)])
    assert found.cycles == 19 + 1 + 7
    assert found.synced == 19 - 2


def test_names_and_conditions_follow_the_loop():
    inner = BranchStep(lambda v: v[1] > 1, (work(1, SUM),))
    body = Repeat(0, number(4), (Name(1, lambda v: v[0] * 2 % 3), inner))
    # 0, 2, 1, 0: once.
    assert timed([body], places=2).cycles == 1 + 7


def pipelined(extent, stages=2, varies=False):
    """A loop whose copies run ahead by a ring of stages, with a longer first command if asked."""
    kind = (lambda v: ("sum", v[0] == 0)) if varies else number(("sum",))
    cost = lambda key: Cost(30.0) if varies and key[1] else SUM  # noqa: E731
    slot = lambda v: v[0] % stages  # noqa: E731
    body = (
        flag(False, 1, 0, slot), work(0, COPY), flag(True, 0, 1, slot),
        flag(False, 0, 1, slot), CommandStep(number(1), kind, cost), flag(True, 1, 0, slot),
    )  # fmt: skip
    free = tuple(flag(True, 1, 0, n) for n in range(stages))
    return (*free, Repeat(0, number(extent), body, varies), work(0, COPY))


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("extent", [5, 50, 401])
def test_a_loop_that_repeats_itself_is_skipped_exactly(extent, stages, varies, monkeypatch):
    walked_iterations = []
    monkeypatch.setattr(steps, "STEPS", 1)
    inner = steps.run

    def counted(body, values, at):
        walked_iterations.append(1)
        inner(body, values, at)

    monkeypatch.setattr(steps, "run", counted)
    skipped = schedule_of([timed(pipelined(extent, stages, varies))])
    few = len(walked_iterations)
    monkeypatch.setattr(Steady, "skipped", lambda *_: 0)
    walked = schedule_of([timed(pipelined(extent, stages, varies))])
    assert skipped == walked
    assert few < 40 or extent < 40


def test_iterations_that_differ_are_not_skipped():
    # Every tenth sum takes longer; the rest looks like a steady state.
    kind = lambda v: v[0] % 10 == 9  # noqa: E731
    cost = lambda long: Cost(100.0) if long else SUM  # noqa: E731
    loop = Repeat(0, number(100), (CommandStep(number(1), kind, cost),) * 3)
    assert timed([loop]).cycles == 1 + 3 * (90 * 7 + 10 * 100)


def test_a_program_that_waits_for_itself_is_no_schedule():
    with pytest.raises(SimulatedDeadlockError, match="unit wait for flags"):
        _ = timed([flag(False, 0, 1), work(1, SUM)]).cycles


def test_what_does_not_repeat_itself_has_an_end(monkeypatch):
    monkeypatch.setattr("septran.timing.clock.MOST_COMMANDS", 100)
    with pytest.raises(SimulationError, match="more than 100 commands"):
        timed([work(1, SUM)] * 101)
    # Iterations that are skipped are no commands.
    monkeypatch.setattr(steps, "STEPS", 1)
    assert timed([Repeat(0, number(10_000), (work(1, SUM),), varies=False)]).cycles == 70_001
