"""The progress of something long, an estimate of its end, and a way to stop it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

RUNNING, DONE, CANCELLED, FAILED = "running", "done", "cancelled", "failed"
EACH = 0.1
"""Seconds between two reports to listeners at least."""


class Cancelled(Exception):
    """Someone asked to stop; what was found until then is kept."""


@dataclass
class Progress:
    """Steps done of all, with a forecast; safe to cancel from another thread."""

    title: str
    total: int | None = None
    """Steps in all; None where nobody knows."""
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    note: str = ""
    """What is going on now, or the best so far."""
    state: str = RUNNING
    error: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    """Outcomes by kind, such as failures."""

    def __post_init__(self) -> None:
        self.started = self.clock()
        self.ended: float | None = None
        self._stop = threading.Event()
        self._listeners: list[Callable[[Progress], None]] = []
        self._reported = float("-inf")

    @property
    def seconds(self) -> float:
        """Since it began, until it ended."""
        return (self.ended if self.ended is not None else self.clock()) - self.started

    @property
    def left(self) -> float | None:
        """Seconds that it will take at the speed so far; None before the first step."""
        if self.total is None or not self.done or self.state != RUNNING:
            return None
        return self.seconds / self.done * max(0, self.total - self.done)

    @property
    def cancelled(self) -> bool:
        """Whether someone asked to stop."""
        return self._stop.is_set()

    def cancel(self) -> None:
        """Ask to stop; those who wait are notified at once."""
        if self.state == RUNNING:
            self._stop.set()
            self._end(CANCELLED)

    def check(self) -> None:
        """Raise Cancelled where someone asked to stop."""
        if self.cancelled:
            raise Cancelled(self.title)

    def step(self, note: str | None = None, *, kind: str = "") -> None:
        """One more is done; `kind` counts outcomes."""
        if self.state != RUNNING:
            return
        self.done += 1
        self.note = self.note if note is None else note
        if kind:
            self.counts[kind] = self.counts.get(kind, 0) + 1
        self._tell()

    def track(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items one by one, a step each; it ends early when someone asks to stop."""
        for item in items:
            if self.cancelled:
                return
            yield item
            self.step()

    def finish(self, error: BaseException | None = None) -> None:
        """It has ended; with an error, if one stopped it."""
        if self.state == RUNNING:
            self.error = "" if error is None else f"{type(error).__name__}: {error}"
            self._end(DONE if error is None else FAILED)

    def listen(self, listener: Callable[[Progress], None]) -> None:
        """Call `listener` now, after steps (not too often), and at the end."""
        self._listeners.append(listener)
        listener(self)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "title": self.title, "total": self.total, "done": self.done, "note": self.note,
            "state": self.state, "error": self.error, "counts": dict(self.counts),
            "seconds": self.seconds, "left": self.left,
        }  # fmt: skip

    def __str__(self) -> str:
        of = f" of {self.total}" if self.total is not None else ""
        ahead = f", {self.left:.0f} s left" if self.left is not None else ""
        return f"{self.title}: {self.state}, {self.done}{of} in {self.seconds:.1f} s{ahead}"

    def _end(self, state: str) -> None:
        self.state, self.ended = state, self.clock()
        self._tell(force=True)

    def _tell(self, *, force: bool = False) -> None:
        now = self.clock()
        if force or now - self._reported >= EACH:
            self._reported = now
            for listener in self._listeners:
                listener(self)


Work = Callable[[Progress, Callable[[Result], None]], None]
"""Something long: it moves the progress on, and keeps each result as soon as it has it."""


class Job(Generic[Result]):
    """Something long that runs beside the notebook, so that its cells stay usable."""

    def __init__(self, work: Work[Result], progress: Progress) -> None:
        """`work` is given `progress`, which it moves on, and what keeps results so far."""
        self.progress = progress
        self._work = work
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._ended = threading.Event()
        progress.listen(self._heard)
        # A daemon, so that Python can end while a long step is still going on.
        self._thread = threading.Thread(target=self._run, daemon=True, name=progress.title)
        self._thread.start()

    def cancel(self) -> None:
        """Stop it: `wait` returns at once, also where a step takes long."""
        self.progress.cancel()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, at most for some seconds; gives whether it has."""
        return self._ended.wait(seconds)

    def result(self, seconds: float | None = None) -> Result | None:
        """Return what it kept last; None where it was cancelled before it kept anything."""
        if not self.wait(seconds):
            raise TimeoutError(f"{self.progress.title} is still running")
        if self._error is not None:
            raise self._error
        return self._result

    def explore(self) -> Any:
        """A bar with the time that is left, and a button that cancels."""
        from septran.views.live import explore

        return explore(self)

    def __repr__(self) -> str:
        return f"<Job {self.progress}>"

    def _keep(self, result: Result) -> None:
        if not self.progress.cancelled:
            self._result = result

    def _heard(self, progress: Progress) -> None:
        # Who waits goes on at once; what the thread still finds is dropped by `_keep`.
        if progress.state == CANCELLED:
            self._ended.set()

    def _run(self) -> None:
        try:
            self._work(self.progress, self._keep)
        except Cancelled:
            pass
        except BaseException as error:  # `result` raises it to who asks
            self._error = error
        self.progress.finish(self._error)
        self._ended.set()


def in_background(work: Work[Result], title: str, total: int | None = None) -> Job[Result]:
    """Start `work` beside the notebook; show the `Job`'s `explore()` to watch and stop it."""
    return Job(work, Progress(title, total))
