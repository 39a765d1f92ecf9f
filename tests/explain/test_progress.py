"""Progress: forecasts, and a cancel that works within a second."""

from __future__ import annotations

import threading

import pytest

from septran.views.progress import CANCELLED, DONE, FAILED, Cancelled, Progress, in_background


def test_the_time_that_is_left_follows_the_speed_so_far():
    now = [0.0]
    progress = Progress("x", 10, clock=lambda: now[0])
    assert progress.left is None
    for _ in range(4):
        now[0] += 3
        progress.step()
    assert progress.left == pytest.approx(18)
    assert str(progress) == "x: running, 4 of 10 in 12.0 s, 18 s left"
    progress.finish()
    assert (progress.state, progress.left, progress.seconds) == (DONE, None, 12)


def test_listeners_hear_not_too_often_and_always_the_end():
    now, heard = [0.0], []
    progress = Progress("x", 100, clock=lambda: now[0])
    progress.listen(lambda p: heard.append((p.done, p.state)))
    for _ in range(100):
        now[0] += 0.01
        progress.step(kind="ok")
    progress.finish()
    assert len(heard) < 20
    assert heard[-1] == (100, DONE)
    assert progress.counts == {"ok": 100}


def test_tracking_ends_when_someone_cancels():
    progress, seen = Progress("x"), []
    for n in progress.track(range(10)):
        seen.append(n)
        if n == 2:
            progress.cancel()
    assert seen == [0, 1, 2]
    with pytest.raises(Cancelled):
        progress.check()


def test_cancelling_does_not_wait_for_the_step_that_runs():
    begun, go_on = threading.Event(), threading.Event()

    def work(progress, keep):
        for n in progress.track(range(3)):
            keep(n)
            if n == 1:
                begun.set()
                go_on.wait(600)

    job = in_background(work, "slow", 3)
    assert begun.wait(10)
    job.cancel()
    assert job.result(60) == 1  # the second step still goes on
    assert job.progress.state == CANCELLED
    go_on.set()


def test_a_mistake_in_the_work_reaches_who_asks_for_the_result():
    def work(progress, keep):
        raise ValueError("no such thing")

    job = in_background(work, "x")
    with pytest.raises(ValueError, match="no such thing"):
        job.result(10)
    assert (job.progress.state, job.progress.error) == (FAILED, "ValueError: no such thing")


def test_a_result_after_the_end_is_the_last_that_was_kept():
    def work(progress, keep):
        for n in progress.track("abc"):
            keep(n)

    job = in_background(work, "x", 3)
    assert job.result(10) == "c"
    assert job.progress.to_dict()["done"] == 3


def test_the_widget_follows_and_a_click_cancels():
    pytest.importorskip("anywidget")
    go_on = threading.Event()

    def work(progress, keep):
        progress.step("first")
        go_on.wait(30)

    job = in_background(work, "x", 2)
    view = job.explore()
    view._clicked(view, {"cancel": True}, [])
    assert view.data["state"] == CANCELLED
    assert job.wait(1)
    go_on.set()
