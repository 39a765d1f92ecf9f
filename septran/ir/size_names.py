"""Names for the sizes of ragged tiles, which the text of a program repeats many times."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from septran.ir.atoms import Min, parts_of, variables_of
from septran.ir.index import Index, is_axis
from septran.ir.views import View


def name_sizes(lines: Sequence[str], views: Iterable[View]) -> tuple[list[str], list[str]]:
    """Return definitions of names, and the lines with the names in place of what they stand for.

    Named are the minima in `views` that the lines have more than once. Equal texts have equal
    meanings wherever they are, as they are made of the loops around them: ``n_i``, or ``n2_i``
    where another size depends on ``i`` alone, is no more than a short way to write one.
    """
    text = "\n".join(lines)
    found = dict.fromkeys(
        m for view in views for i in (*view.valid, *view.index) for m in _minima(i)
    )
    words = set(re.findall(r"\w+", text))
    definitions: dict[str, str] = {}
    # What others are made of is named first, so that these are defined by its name.
    for minimum in sorted(found, key=lambda m: len(str(m))):
        variables = "_".join(dict.fromkeys(v.name for v in variables_of(minimum)))
        if text.count(str(minimum)) < 2 or not variables.isidentifier():
            continue
        numbers = itertools.chain([""], itertools.count(2))
        names = (f"n{number}_{variables}" for number in numbers)
        name = next(name for name in names if name not in words)
        words.add(name)
        definitions[str(minimum)] = name
    shortened = [_shortened(line, definitions) for line in lines]
    heads = []
    for minimum_text, name in definitions.items():
        others = {t: n for t, n in definitions.items() if n != name}
        heads.append(f"{name} = {_shortened(minimum_text, others)}")
    return heads, shortened


def _shortened(line: str, definitions: dict[str, str]) -> str:
    # The longest first: it may contain others.
    for text in sorted(definitions, key=len, reverse=True):
        line = line.replace(text, definitions[text])
    return line


def _minima(index: Index) -> Iterable[Min]:
    for atom, _ in index.terms:
        for part in parts_of(atom):
            yield from _minima(part)
        if isinstance(atom, Min) and not any(map(is_axis, variables_of(atom))):
            yield atom
