"""A process for each run of tests: forked from one that has imported what takes seconds."""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import functools
import gc
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from _pytest.main import pytest_runtestloop as run_items

from benchmarks.rules import cpp_sites, python_sites
from benchmarks.rules.families import EMULATOR, ROOT
from benchmarks.rules.python_sites import REACHED, Site

HEAVY = ("numpy", "torch", "tvm", "pandas", "ml_dtypes", "yaml")
"""Imported before forking; nothing of the project is."""
Text = Callable[[str], Any]
"""From a module's text to its code or tree."""


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from its text after a change; writes no bytecode."""

    def __init__(self, name: str, path: str, change: Text) -> None:
        super().__init__(name, path)
        self.change = change

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text("utf-8")
        code: CodeType = compile(self.change(source), self.path, "exec", dont_inherit=True)
        return code


class _Finder:
    """Finds the modules that are changed."""

    def __init__(self, changes: dict[str, Text]) -> None:
        self.changes = changes

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        change = self.changes.get(name.replace(".", "/") + ".py")
        found = importlib.machinery.PathFinder.find_spec(name, path) if change else None
        if found is None or found.origin is None or change is None:
            return None
        return importlib.util.spec_from_loader(name, _Loader(name, found.origin, change))


@dataclass(eq=False)
class _Plugin:
    """Notes what becomes of each test."""

    log: Path | None = None
    now: set[str] = field(default_factory=set)
    """Places that were reached since the last test began."""
    tests: dict[str, tuple[float, list[str]]] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    """Tests that did not pass, with all rules in force: they tell nothing."""
    failed: str = ""
    why: str = ""

    def reached(self, place: str, value: object = None) -> object:
        self.now.add(place)
        return value

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.now.clear()
        if self.log:
            self.log.write_text("")
        begin = time.process_time()
        result = yield
        if self.log:
            self.now.update(self.log.read_text().split("\n")[:-1])
        self.tests[item.nodeid] = (time.process_time() - begin, sorted(self.now))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.others.add(report.nodeid)
        if report.failed and not self.failed:
            self.failed = report.nodeid
            self.why = str(getattr(report.longrepr, "reprcrash", report.longrepr))[:300]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed, self.why = report.nodeid or "collection", str(report.longrepr)[-300:]


def trace(
    sites: Sequence[Site], tests: Sequence[str], marks: str, seconds: float
) -> dict[str, Any]:
    """Which of the tests come to which rules, and the processor time that each takes."""

    def work() -> dict[str, Any]:
        plugin = _Plugin()
        setattr(builtins, REACHED, plugin.reached)
        with contextlib.ExitStack() as stack:
            if _headers(sites):
                folder = stack.enter_context(_switchable_headers())
                plugin.log = folder / "log"
                os.environ[cpp_sites.LOG] = str(plugin.log)
            else:
                _patch_modules(sites, python_sites.traced)
            _pytest(plugin, tests, "-m", marks)
        return {t: found for t, found in plugin.tests.items() if t not in plugin.others}

    return _forked(work, seconds)


def judge(
    todo: Sequence[tuple[Site, Sequence[str]]],
    seconds: float,
    told: Callable[[Site, dict[str, Any]], None],
) -> None:
    """Run each rule's tests without it until one fails; `told` gets that test's name and why.

    The tests are collected once, with all rules in force; each rule is switched off in a copy of
    that process, in the functions that it has loaded.
    """
    child = os.fork()  # the process that goes on must not have loaded what the next trace changes
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            raise SystemExit(f"the run of the tests ended with {code}")
        return
    code = 1
    try:
        _judge(todo, seconds, told)
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _judge(
    todo: Sequence[tuple[Site, Sequence[str]]],
    seconds: float,
    told: Callable[[Site, dict[str, Any]], None],
) -> None:
    class Judge:
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session: pytest.Session) -> bool:
            faulthandler.cancel_dump_traceback_later()  # its thread's lock would stay taken
            plugin = _Plugin()
            session.config.pluginmanager.register(plugin)
            items = {i.nodeid: i for i in session.items}
            for site, tests in todo:
                chosen = [items[t] for t in tests if t in items]
                work = functools.partial(_judged, site, chosen, session, plugin)
                told(site, _forked(work, seconds))
            return True

    files = list(dict.fromkeys(t.split("::")[0] for _, tests in todo for t in tests))
    with _switchable_headers() if _headers([todo[0][0]]) else contextlib.nullcontext():
        _pytest(Judge(), files, "-x", "-m", "", "-s")


def _judged(
    site: Site, items: list[pytest.Item], session: pytest.Session, plugin: _Plugin
) -> dict[str, Any]:
    if _headers([site]):
        os.environ[cpp_sites.OFF] = site.place
    elif name := _loaded(site.file):
        _patch_loaded(name, site)
    else:
        _patch_modules([site], lambda s, here: python_sites.switched_off(s, here[0]))
    session.items = items
    with contextlib.suppress(session.Failed, session.Interrupted):
        run_items(session)
    return {"failed": plugin.failed, "why": plugin.why, "run": len(plugin.tests)}


def _loaded(file: str) -> str:
    name = file.removesuffix(".py").replace("/", ".")
    return name if name in sys.modules else ""


def _patch_loaded(name: str, site: Site) -> None:
    """Give functions of a loaded module the code that they have without a rule."""
    module = sys.modules[name]
    path = str(module.__file__)
    source = Path(path).read_text("utf-8")
    before, after = (
        compile(tree, path, "exec", dont_inherit=True)
        for tree in (source, python_sites.switched_off(source, site))
    )
    old, new = dict(_codes(before)), dict(_codes(after))
    changed = {key: code for key, code in new.items() if old.get(key) != code}
    found = 0
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename == path:
            code = function.__code__
            if (code.co_qualname, code.co_firstlineno) in changed:
                function.__code__ = changed[code.co_qualname, code.co_firstlineno]
                found += 1
    constants: dict[str, Any] = {"__name__": f"{name}.without"}
    if site.constant:
        sys.modules[constants["__name__"]] = module  # dataclasses look their module up
        exec(after, constants)
        kept = getattr(module, site.constant)
        if isinstance(kept, dict):
            kept.update(constants[site.constant])
        else:
            setattr(module, site.constant, constants[site.constant])
    elif not found:
        raise RuntimeError(f"{site.key}: no function has this rule")


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield (inner.co_qualname, inner.co_firstlineno), inner
            yield from _codes(inner)


def _headers(sites: Sequence[Site]) -> bool:
    return sites[0].file.endswith(".h")


def _by_file(sites: Sequence[Site]) -> dict[str, list[Site]]:
    return {f: [s for s in sites if s.file == f] for f in dict.fromkeys(s.file for s in sites)}


def _patch_modules(sites: Sequence[Site], change: Callable[[str, list[Site]], Any]) -> None:
    loaded = [site.file for site in sites if _loaded(site.file)]
    if loaded:
        raise RuntimeError(f"{loaded[0]} is loaded already, and would stay as it is")

    def bound(here: list[Site]) -> Text:
        return lambda source: change(source, here)

    finder: Any = _Finder({file: bound(here) for file, here in _by_file(sites).items()})
    sys.meta_path.insert(0, finder)


@contextlib.contextmanager
def _switchable_headers() -> Iterator[Path]:
    """Let the emulator take its sources from a copy in which each rule has a switch."""
    from septran.emulator import build

    with tempfile.TemporaryDirectory(prefix="septran-rules-") as folder:
        copy = Path(folder)
        for part in ("device", "runtime"):
            shutil.copytree(ROOT / EMULATOR / part, copy / part)
        for header in sorted(copy.rglob("*.h")):
            file = f"{EMULATOR}/{header.relative_to(copy)}"
            header.write_text(cpp_sites.switchable(file, header.read_text("utf-8")), "utf-8")
        build._HERE = copy
        for kept in (build._sources, build._fingerprint):
            kept.cache_clear()
        yield copy


def _pytest(plugin: object, tests: Sequence[str], *more: str) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-n0", *more]
    code = pytest.main([*options, *tests], plugins=[plugin])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):
        raise RuntimeError(f"pytest ended with {code!r}")


def _forked(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """What `work` returns in a process of its own; {"ended": why} where it has no end."""
    with tempfile.TemporaryDirectory(prefix="septran-rules-") as folder:
        answer = Path(folder) / "answer.json"
        child = os.fork()
        if not child:
            _in_child(work, answer, Path(folder) / "output")
        ended = _wait(child, seconds)
        if answer.exists():
            found: dict[str, Any] = json.loads(answer.read_text())
            return found
        said = Path(folder) / "output"
        return {"ended": ended, "why": said.read_text(errors="replace")[-2000:]}


def _in_child(work: Callable[[], dict[str, Any]], answer: Path, output: Path) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        os.chdir(ROOT)
        with output.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            found = work()
        staging = answer.with_suffix(".new")
        staging.write_text(json.dumps(found))
        staging.replace(answer)
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _wait(child: int, seconds: float) -> str:
    begin, status = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return f"the process ended with {os.waitstatus_to_exitcode(status)}"
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"more than {seconds:g} seconds"
