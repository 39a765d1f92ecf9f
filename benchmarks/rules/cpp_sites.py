"""Rules of the emulator's hardware model: every call in its headers that reports a fault."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path

from benchmarks.rules.python_sites import Site

OFF, LOG = "SEPTRAN_RULES_OFF", "SEPTRAN_RULES_LOG"
SWITCH = f"""\
#ifndef RULE_IS_OFF
#define RULE_IS_OFF
#include <cstdio>
#include <cstdlib>
#include <cstring>
inline bool rule_is_off(const char* place) {{
  if (const char* log = getenv("{LOG}"))
    if (FILE* file = fopen(log, "a")) {{
      fprintf(file, "%s\\n", place);
      fclose(file);
    }}
  const char* off = getenv("{OFF}");
  return off && !strcmp(off, place);
}}
#endif
"""
_CALL = re.compile(r"(?<![\w:.])(fail_at|fail|bad|note)\((?!fault, nullptr)(?:Fault::)?(\w+),")
DEFINITIONS = "faults.h"


def cpp_sites(file: str, source: str) -> list[Site]:
    """Each call of `fail`, `fail_at`, `bad` or `note` that says which fault it is."""
    sites, counts = [], Counter[str]()
    for call in _CALL.finditer(source) if Path(file).name != DEFINITIONS else ():
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


def switchable(file: str, source: str) -> str:
    """The header with a switch in front of each fault, so that one compilation serves all rules.

    A fault whose place is in the environment's `OFF` is none, and functions that only report one
    come back; in the file `LOG` stands which were come to. Lines stay where they are.
    """
    sites = cpp_sites(file, source)
    for site in reversed(sites):
        end = end_of_call(source, site.number)
        call = source[site.number : end]
        switch = f'(rule_is_off("{site.place}") ? (void)0 : {call})'
        source = source[: site.number] + switch + source[end:]
    if Path(file).name != DEFINITIONS:
        source = source.replace("[[noreturn]] ", "")
    return f"{SWITCH}#line 1\n{source}" if sites else source
