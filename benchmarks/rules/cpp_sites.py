"""Rules of the emulator's hardware model: every call in its headers that reports a fault."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

from benchmarks.rules.python_sites import Site

_CALL = re.compile(r"(?<![\w:.])(fail_at|fail|bad)\(Fault::(\w+)")


def cpp_sites(file: str, source: str) -> list[Site]:
    """Each call of `fail`, `fail_at` or `bad` with a fault of its own."""
    sites, counts = [], Counter[str]()
    for call in _CALL.finditer(source):
        text = " ".join(source[call.start() : end_of_call(source, call.start())].split())
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        place = f"{file}::{call[2]}::{digest}"
        counts[place] += 1
        line = source.count("\n", 0, call.start()) + 1
        key = f"{place}-{counts[place]}::nothing"
        sites.append(Site(key, file, line, call.start(), "nothing", text[:100]))
    return sites


def end_of_call(source: str, start: int) -> int:
    """Behind the parenthesis that closes a call; parentheses in strings do not count."""
    depth, at, quoted = 0, start, False
    while True:
        letter = source[at]
        if letter == '"' and source[at - 1] != "\\":
            quoted = not quoted
        elif not quoted and letter in "()":
            depth += 1 if letter == "(" else -1
            if not depth:
                return at + 1
        at += 1


def switched_off(source: str, site: Site) -> str:
    """The header without one fault; lines stay where they are."""
    end = end_of_call(source, site.number)
    lines = source.count("\n", site.number, end)
    return source[: site.number] + "(void)0" + "\n" * lines + source[end:]


def traced(source: str, sites: list[Site], log: str) -> str:
    """The header that writes down which faults it comes to."""
    for site in sorted(sites, key=lambda s: -s.number):
        note = (
            f'[] {{ if (auto f = fopen("{log}", "a")) {{ fputs("{site.place}\\n", f); '
            "fclose(f); } }(), "
        )
        source = source[: site.number] + note + source[site.number :]
    return "#include <cstdio>\n#line 1\n" + source
