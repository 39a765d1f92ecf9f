"""Lessons and verdicts as static HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from septran.lessons.language import say
from septran.views.pictures import colours
from septran.views.pictures.html import (
    Markup,
    chip,
    code,
    faint,
    h,
    join,
    mono,
    panel,
    paragraph,
    strong,
    table,
    tag,
)

if TYPE_CHECKING:
    from septran.lessons.lesson import Lesson
    from septran.lessons.verdict import Verdict


def lesson_panel(lesson: Lesson) -> Markup:
    """The story, the goals, and the mapping to mend."""
    goals = tag(
        "ul", *(tag("li", prose(say(goal.text))) for goal in lesson.goals), style="margin:2px 0;"
    )
    parts = [paragraph(prose(say(lesson.story))), paragraph(strong(say("Goals"))), goals]
    if lesson.mends == "mapping":
        parts.append(code(lesson.mapping.strip() + "\n", "yaml"))
    return panel(strong(f"{say('Lesson')}: {say(lesson.title)}"), *parts)


def prose(text: str) -> Markup:
    """Words, with what is between backticks in the letters of code."""
    parts = text.split("`")
    return join([mono(part) if n % 2 else h(part) for n, part in enumerate(parts)])


def verdict_panel(verdict: Verdict) -> Markup:
    """A row a goal, or the mistake."""
    hue = colours.GREEN if verdict.passed else colours.VERMILION
    mark = chip(say("passed" if verdict.passed else "not yet"), hue)
    title = Markup(h(mark) + h(f" {say(verdict.title)}: {say(verdict.headline)}"))
    if verdict.error:
        return panel(title, code(verdict.error + "\n"))
    rows = [
        (
            chip(say("yes" if reached else "no"), colours.GREEN if reached else colours.VERMILION),
            prose(say(text)),
            say(found),
            faint(prose(say(hint))),
        )
        for text, reached, found, hint in verdict.graded
    ]
    return panel(title, table(("", *map(say, ("goal", "found", "hint"))), rows))
