"""Fixtures that all tests share."""

from __future__ import annotations

import faulthandler
import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from septran import backends
from septran.targets.registry import target_for
from tests.tiers import outside_share, share

# A busy machine takes its time for an example: that is no mistake of what is tested.
hypothesis.settings.register_profile("septran", deadline=None)
hypothesis.settings.load_profile("septran")
# NumPy's threads wait for each other on a busy machine: small products took seconds.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Trees of many small objects stay alive here: to look through them as often as usual took a
# seventh of the time of tests that compile.
gc.set_threshold(50_000, 20, 20)

TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")
    parser.addoption(
        "--stuck-after", type=float, default=660, metavar="SECONDS",
        help="end a process in which no test has begun or ended for so long",
    )  # fmt: skip
    parser.addoption(
        "--share", type=share, default=(1, 1), metavar="K/N",
        help="of the slow cases of each swept function only the K-th of N shares",
    )  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """A plain `pytest` runs the whole suite, and takes all processors for it.

    The workers come by here as well: they must not start workers of their own.
    """
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if hasattr(config, "workerinput"):
        return
    if whole and config.option.numprocesses is None and config.option.capture != "no":
        config.option.numprocesses = "auto"


@pytest.hookimpl(trylast=True)  # after pytest's own use of faulthandler
def pytest_sessionstart(session: pytest.Session) -> None:
    _expect_progress(session.config)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is there now, tests and modules, stays: each search for garbage would go through it."""
    gc.freeze()


def pytest_runtest_logstart(nodeid: str, location: object) -> None:
    _expect_progress()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _expect_progress()


def pytest_unconfigure(config: pytest.Config) -> None:
    faulthandler.cancel_dump_traceback_later()


_OFTEN = 5.0
"""Seconds that a watch may be old."""
_limits: list[float] = []
_started: list[float] = [0.0]


def _expect_progress(config: pytest.Config | None = None) -> None:
    """Start the watch again that ends this process, with the stacks of its threads.

    pytest-timeout stops a test by a signal or by a thread of Python; native code that never
    returns lets neither run. A worker that ends so is replaced. The process that waits for the
    workers has a watch, too: a child that a dead worker has forked holds the worker's pipe open,
    and xdist would wait for its end for ever.
    """
    now = time.monotonic()
    if config is None and now - _started[0] < _OFTEN:
        return  # a watch starts a thread, and most tests end sooner than that pays
    _started[0] = now
    if config is not None:
        waits = config.option.dist != "no" and not hasattr(config, "workerinput")
        _limits[:] = [config.option.stuck_after * (1.5 if waits else 1)]
    faulthandler.dump_traceback_later(_limits[0], exit=True)


def vector_widths() -> dict[int, str]:
    """Bits of the host's vectors, then of the others, each with the word for such code."""
    from septran.machine.loader import NATIVE_IS
    from septran.targets.cpu.run.isa import native, other_width

    own = 8 * native().unit.bytes
    return {own: os.environ.get(NATIVE_IS, ""), 768 - own: other_width()}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of CPU code run for AVX2's vectors and for AVX-512's, wherever they run.

    For those that are not the host's they are slow tests, unless marked `both_widths`, and left
    out where marked `one_width`.
    """
    if "vectors" not in metafunc.fixturenames:
        return
    own, other = vector_widths()
    always = metafunc.definition.get_closest_marker("both_widths")
    alone = metafunc.definition.get_closest_marker("one_width")
    beside = pytest.param(other, marks=() if always else pytest.mark.slow)
    metafunc.parametrize(
        "vectors", [own] if alone else [own, beside], indirect=True, scope="module"
    )


@pytest.fixture(scope="module")
def vectors(request: pytest.FixtureRequest) -> Iterator[int]:
    """The bits of the vectors that native code is made for in this test."""
    from septran.machine.loader import NATIVE_IS

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NATIVE_IS, vector_widths()[request.param])
        yield request.param


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Iterator[None]:
    """Cases of a function beside those that `one_in` names are slow; slow ones are not counted."""
    made = yield
    cases = made if isinstance(made, list) else []
    thinned = [each for each in cases if each.get_closest_marker("one_in")]
    fast = [each for each in thinned if not each.get_closest_marker("slow")]
    for number, each in enumerate(fast):
        chosen = each.get_closest_marker("one_in")
        step, first = chosen.args[0], chosen.kwargs.get("first", 0)
        if number % step != first % step:
            each.add_marker("slow")
    return made


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases of sweeps that are not in the share that this run takes."""
    others = outside_share(items, *config.option.share)
    if others:
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=list(others))


class Golden:
    """Compares text with ``tests/golden/<test file>/<name>.txt``."""

    def __init__(self, folder: Path, update: bool) -> None:
        self.folder, self.update = folder, update

    def check(self, text: str, name: str) -> None:
        path = self.folder / f"{name}.txt"
        text = text.rstrip("\n") + "\n"
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden file {path}; write it with --update-golden"
        assert text == path.read_text(encoding="utf-8")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    folder = request.path.relative_to(TESTS).with_suffix("")
    return Golden(TESTS / "golden" / folder, request.config.getoption("--update-golden"))


@pytest.fixture
def without_hip(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """AMD's GPUs as a backend that has no code generator."""
    has = backends._has

    def known(folder: str, module: str) -> bool:
        return (folder, module) != ("rocm", "target") and has(folder, module)

    for found in (backends.with_code, target_for):
        found.cache_clear()
    monkeypatch.setattr(backends, "_has", known)
    yield
    for found in (backends.with_code, target_for):
        found.cache_clear()
