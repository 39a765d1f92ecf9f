"""The parts of a lesson: something fixed, something to repair, and goals that grade it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from septran.errors import SepTranError
from septran.lessons.attempt import Attempt
from septran.lessons.language import say
from septran.lessons.verdict import Verdict
from septran.stage import Displayable


@dataclass(frozen=True)
class Outcome:
    """The distance of an attempt from one goal."""

    reached: bool
    found: str
    """What was measured, in words with a figure: ``41,200 cycles``."""
    hint: str = ""
    """What to try next, where it is not reached; the goal's own where empty."""


@dataclass(frozen=True)
class Goal:
    """One thing to reach; `septran.lessons.goals` has the usual ones."""

    text: str
    """What is wanted, in words with a figure: ``at most 30,000 cycles``."""
    judge: Callable[[Attempt], Outcome]
    hint: str = ""
    """What to try where it is not reached."""


@dataclass(frozen=True)
class Lesson(Displayable):
    """A fixed logic and a mapping to repair; or the logic, or a pass (`septran.tile_pass`)."""

    title: str
    story: str
    """What is wrong, and what is asked for; a few sentences."""
    logic: Any
    """A task, or an operator's name; where the logic is to be mended, the one to start from."""
    mapping: str
    """The mapping as a text; where the mapping is to be mended, the one to start from."""
    goals: tuple[Goal, ...]
    solution: Any
    """An answer that reaches every goal: a mapping's text, a task, or a pass."""
    shapes: Mapping[str, Any] = field(default_factory=dict)
    """Sizes that every attempt is compiled for."""
    dtypes: Any = None
    static: Mapping[str, Any] | None = None
    mends: str = "mapping"
    """``mapping``, ``logic`` or ``pass``."""
    machine: Any = None
    """Where not the one that the mapping names: a `septran.machine.model.Machine`, or a file."""
    broken: Any = None
    """The pass to start from, where a pass is to be mended."""

    @property
    def start(self) -> Any:
        """The text or pass to be mended, as it is now."""
        return {"mapping": self.mapping, "logic": self.logic, "pass": self.broken}[self.mends]

    def attempt(self, answer: Any) -> Attempt:
        """`answer` in its place beside what is fixed."""
        settings = {"shapes": self.shapes, "dtypes": self.dtypes, "static": self.static}
        given = {name: value for name, value in settings.items() if value}
        if self.machine is not None:
            given["machine"] = self.machine
        if self.mends == "pass":
            return Attempt(self.logic, self.mapping, {**given, "passes": [answer]})
        if self.mends == "mapping":
            return Attempt(self.logic, answer, given)
        return Attempt(answer, self.mapping, given)

    def check(self, answer: Any) -> Verdict:
        """Grade an answer; mistakes in it are part of the verdict, not raised."""
        attempt = self.attempt(answer)
        try:
            self._same_machine(attempt)
            graded = []
            for goal in self.goals:
                outcome = goal.judge(attempt)
                hint = "" if outcome.reached else outcome.hint or goal.hint
                graded.append((goal.text, outcome.reached, outcome.found, hint))
        except SepTranError as error:
            return Verdict(self.title, tuple(g.text for g in self.goals), (), str(error))
        return Verdict(self.title, tuple(g.text for g in self.goals), tuple(graded), "")

    def _same_machine(self, attempt: Attempt) -> None:
        """Another machine is no repair."""
        given = {} if self.machine is None else {"machine": self.machine}
        wanted = Attempt(self.logic, self.mapping, given).plan.machine.name
        if attempt.plan.machine.name != wanted:
            raise SepTranError(f"this lesson is about {wanted}, not {attempt.plan.machine.name}")

    def __str__(self) -> str:
        goals = [f"  - {say(goal.text)}" for goal in self.goals]
        title = say(self.title)
        parts = [title, "=" * len(title), say(self.story), "", f"{say('Goals')}:", *goals]
        if self.mends == "mapping":
            parts += ["", f"{say('The mapping to mend')}:", "", self.mapping.strip()]
        return "\n".join(parts) + "\n"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Static HTML and text."""
        from septran.lessons.panels import lesson_panel

        del include, exclude
        return {"text/html": str(lesson_panel(self)), "text/plain": str(self)}
