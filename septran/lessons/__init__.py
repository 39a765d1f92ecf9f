"""Exercises that grade themselves: a fixed logic, a mapping to repair, goals to reach.

from septran.lessons import lesson

exercise = lesson("overlap_copies")
exercise.check(exercise.start)       # what is reached, what is not, and a hint for each
"""

from __future__ import annotations

import importlib
from pathlib import Path

from septran.errors import CallError, nearest
from septran.lessons.attempt import Attempt
from septran.lessons.lesson import Goal, Lesson, Outcome
from septran.lessons.verdict import Verdict

__all__ = ["Attempt", "Goal", "Lesson", "Outcome", "Verdict", "lesson", "names"]

_FOLDER = Path(__file__).parent / "exercises"


class NoSuchLessonError(CallError):
    """A lesson by a name that none has."""

    code = "SEP656"


def names() -> tuple[str, ...]:
    """The lessons, by file of `septran/lessons/exercises`."""
    return tuple(sorted(p.stem for p in _FOLDER.glob("[!_]*.py")))


def lesson(name: str) -> Lesson:
    """A lesson by name; raises NoSuchLessonError with the nearest one."""
    if name not in names():
        raise NoSuchLessonError(f"no lesson {name!r}", hint=nearest(name, names()))
    found: Lesson = importlib.import_module(f"septran.lessons.exercises.{name}").LESSON
    return found
