"""``python -m benchmarks.rules``: switch off each rule, and see whether a test misses it.

--only verifier,bounds   these families of rules (`benchmarks.rules.families`)
--list                   the rules and the tests that reach them, and nothing is run
--journal FILE           results, a line of JSON each; what is in it is not run again
--match TEXT             only rules with this in their key
--retrace                ask again which tests reach which rule
--slow                   trace the slow tests, too
--again                  run those again that no test missed (after new tests, with --retrace)
--table                  print the table of the journal as Markdown
--seconds N              the limit for one rule
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.rules.children import HEAVY, judge, trace
from benchmarks.rules.families import FAMILIES, UNSEEN, Family
from benchmarks.rules.python_sites import Site

CAUGHT, MISSED, UNTESTED, LEFT = "caught", "missed by no test", "without a test", "not run"
VERDICTS = (CAUGHT, MISSED, UNTESTED, LEFT)
Reach = dict[str, tuple[float, list[str]]]
"""Of each test its seconds of processor time and the rules that it comes to."""


def main() -> None:
    """Trace, run, and print the table."""
    given = _arguments()
    names = given.only.split(",") if given.only else list(FAMILIES)
    given.journal.parent.mkdir(parents=True, exist_ok=True)
    done = _read(given.journal)
    if not given.table and not given.list:
        for name in HEAVY:
            importlib.import_module(name)
    for name in names if not given.table else ():
        sites = [s for s in FAMILIES[name].sites() if given.match in s.key]
        reach = _reach(name, FAMILIES[name], given)
        if given.list:
            for site in sites:
                reached = len(_tests(site, reach))
                print(f"{reached:4} {site.file}:{site.line} {site.change}: {site.text}")
            continue
        left = [s for s in sites if _is_left(done.get(s.key, {}).get("verdict"), given.again)]
        _run(name, [(s, _tests(s, reach)) for s in left], given)
    done = _read(given.journal)
    if not given.list:
        print(table(done, names))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rules", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--only", default="")
    parser.add_argument("--match", default="")
    parser.add_argument("--journal", type=Path, default=Path("build/rules.jsonl"))
    parser.add_argument("--seconds", type=float, default=300)
    for flag in ("list", "retrace", "again", "slow", "table"):
        parser.add_argument(f"--{flag}", action="store_true")
    return parser.parse_args()


def _read(journal: Path) -> dict[str, Any]:
    lines = journal.read_text().splitlines() if journal.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def _reach(name: str, family: Family, given: argparse.Namespace) -> Reach:
    """From the file beside the journal, or asked for now."""
    kept: Path = given.journal.with_suffix(f".{name}.json")
    if kept.exists() and not given.retrace:
        found: Reach = json.loads(kept.read_text())
        return found
    if given.list:
        return {}
    reach = trace(family.sites(), family.tests, "" if given.slow else "not slow", seconds=6 * 3600)
    if "ended" in reach:
        raise SystemExit(f"{name}: the tests could not be traced: {reach['ended']}\n{reach['why']}")
    kept.write_text(json.dumps(reach))
    return reach


def _tests(site: Site, reach: Reach) -> list[str]:
    """Tests that come to a rule, the cheapest first.

    A constant of a module is reached by whoever reaches anything in the module, and first by
    tests that have its name in theirs.
    """
    exact = [(seconds, t) for t, (seconds, places) in reach.items() if site.place in places]
    constant = "UNITS" in site.place or "SAFETY" in site.place
    if not constant:
        return [t for _, t in sorted(exact)]
    word = site.place.split("::")[1].removeprefix("UNITS ").strip("'")
    near = [
        (word not in t, seconds, t)
        for t, (seconds, places) in reach.items()
        if any(p.startswith(f"{site.file}::") for p in places)
    ]
    return [t for _, _, t in sorted(near)]


def _is_left(verdict: str | None, again: bool) -> bool:
    return verdict is None or (again and verdict == MISSED)


def _unseen(site: Site) -> str:
    """Why no test is to miss a rule; empty for nearly all."""
    return next((why for words, why in UNSEEN.items() if words in site.text), "")


def _run(family: str, todo: list[tuple[Site, list[str]]], given: argparse.Namespace) -> None:
    begin = time.monotonic()
    screen = os.fdopen(os.dup(1), "w")
    reached = {site.key: len(tests) for site, tests in todo}

    def told(site: Site, found: dict[str, Any]) -> None:
        nonlocal begin
        if "process" in found.get("ended", "") and "-" not in found["ended"]:  # not by a signal
            raise SystemExit(f"{site.key}: {found['ended']}\n{found['why']}")
        caught = found.get("failed") or found.get("ended")
        row = {
            "key": site.key, "family": family, "line": site.line, "text": site.text,
            "verdict": CAUGHT if caught else UNTESTED if _unseen(site) else MISSED,
            "by": caught or _unseen(site),
            "why": found.get("why", ""), "reached_by": reached[site.key],
            "run": found.get("run", 0), "seconds": round(time.monotonic() - begin, 1),
        }  # fmt: skip
        begin = time.monotonic()
        with given.journal.open("a") as file:
            file.write(json.dumps(row) + "\n")
        place = f"{site.file}:{site.line} {site.change}"
        print(f"{row['verdict']:18} {place} {site.text[:60]}", file=screen, flush=True)

    for site, _ in ((s, t) for s, t in todo if not t):
        told(site, {})
    reachable = [(s, t) for s, t in todo if t]
    if reachable:
        judge(reachable, given.seconds, told)


def table(done: dict[str, Any], names: list[str]) -> str:
    """Rules by family and file: how many, caught, not caught, not run; then the holes."""
    sites = [(name, s) for name in names for s in FAMILIES[name].sites()]
    counts: dict[tuple[str, str], Counter[str]] = {}
    holes = []
    for name, site in sites:
        verdict = done.get(site.key, {}).get("verdict", LEFT)
        for row in ((name, site.file), (name, "all"), ("all", "")):
            counts.setdefault(row, Counter())[verdict] += 1
        if verdict == UNTESTED:
            holes.append(f"- {site.file}:{site.line} has no test, as {_unseen(site)}: "
                         f"`{site.text}`")  # fmt: skip
        if verdict == MISSED:
            reached = done[site.key]["reached_by"]
            holes.append(f"- {site.file}:{site.line} ({site.change}, reached by {reached} tests): "
                         f"`{site.text}`")  # fmt: skip
    lines = [f"| family | file | rules | {' | '.join(VERDICTS)} |",
             "| --- | --- | --- |" + " --- |" * len(VERDICTS)]  # fmt: skip
    for (name, file), count in sorted(counts.items()):
        kinds = (count[k] for k in VERDICTS)
        lines.append(f"| {name} | {file} | {count.total()} | {' | '.join(map(str, kinds))} |")
    return "\n".join([*lines, "", *holes])


if __name__ == "__main__":
    main()
