"""The source stage as text: its figures on top, and its further parts by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from septran.errors import CallError
from septran.targets.base import Source
from septran.views.text.remarks import Noted


class NoPartError(CallError):
    """The source stage has no part of that name: no PTX, SASS or assembly here."""

    code = "SEP658"


def source_text(source: Source, remarks: Iterable[Noted]) -> str:
    """The text of a source; that of CUDA under what is known of its machine code."""
    text = str(source).rstrip("\n") + "\n"
    if source.language != "cuda":  # others have their figures in the text
        return "".join(map(_comment, (r for r in remarks if r.kind == "unchecked"))) + text
    notes = [f"{fact}: {value}" for fact, value in source.facts.items()]
    notes += [f"{r.kind}: {r.message}" for r in remarks]
    notes += [
        f"{title}: {len(part.splitlines()):,} lines (--part {_word(title)})"
        for title, part in source.parts.items()
    ]
    return "".join(f"// {line}\n" for line in notes) + text


def _comment(remark: Noted) -> str:
    """A remark as a comment of C."""
    words = f"{remark.kind}: {remark.message} (try: {remark.hint})"
    return f"/* {words.replace('*/', '* /')} */\n"


def part_text(source: Source, name: str) -> str:
    """A part by the first word of its title, or by all of it; raises NoPartError."""
    for title, text in source.parts.items():
        if name.lower() in (_word(title), title.lower()):
            return text.rstrip("\n") + "\n"
    known = ", ".join(map(_word, source.parts))
    reasons: list[Any] = [source.facts.get(f"not {what}") for what in ("compiled", "disassembled")]
    hint = next((str(reason) for reason in reasons if reason), "")
    raise NoPartError(
        f"the source of {source.name} has no part {name!r}; it has {known or 'its text alone'}",
        hint=hint or None,
    )


def _word(title: str) -> str:
    return title.partition(" ")[0].lower()
