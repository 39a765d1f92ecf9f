"""The grading of an answer to a lesson."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from septran.lessons.language import say
from septran.stage import Displayable


@dataclass(frozen=True)
class Verdict(Displayable):
    """Goal by goal: reached or not, what was found, and what to try."""

    title: str
    wanted: tuple[str, ...]
    """The goals, in words."""
    graded: tuple[tuple[str, bool, str, str], ...]
    """Of each goal: its words, whether it is reached, what was found, a hint."""
    error: str
    """The mistake that kept the answer from being graded; empty where there is none."""

    @property
    def passed(self) -> bool:
        """Whether every goal is reached."""
        return not self.error and all(reached for _, reached, _, _ in self.graded)

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        if self.error:
            return "it does not compile yet"
        if self.passed:
            return "all goals are reached"
        missing = sum(1 for _, reached, _, _ in self.graded if not reached)
        return f"{missing} of {len(self.graded)} goals are not reached yet"

    def __str__(self) -> str:
        lines = [f"{say(self.title)}: {say(self.headline)}"]
        for text, reached, found, hint in self.graded:
            lines.append(f"  {say('yes') if reached else say('NO ')}  {say(text)}: {say(found)}")
            lines += [f"       {say('hint')}: {say(hint)}"] if hint else []
        return "\n".join([*lines, *([self.error] if self.error else [])]) + "\n"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Static HTML and text."""
        from septran.lessons.panels import verdict_panel

        del include, exclude
        return {"text/html": str(verdict_panel(self)), "text/plain": str(self)}
