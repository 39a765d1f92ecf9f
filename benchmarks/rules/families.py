"""Which modules' rules are switched off, and which tests are to notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.rules.cpp_sites import cpp_sites
from benchmarks.rules.python_sites import Site, bound_sites, check_sites

ROOT = Path(__file__).parents[2]
EMULATOR = "septran/emulator"
UNSEEN = {
    "more than 65535 accessing instructions":
        "a kernel of as many accesses takes the C++ compiler minutes",
}  # fmt: skip
"""Rules, by their words, that no test is to miss, and why."""


@dataclass(frozen=True)
class Family:
    """Modules that judge something, and their tests."""

    files: tuple[str, ...]
    """Patterns of paths in the repository."""
    tests: tuple[str, ...]
    """What is run to find which tests reach a rule; the first are tried first."""
    kind: str = "checks"
    """`checks`: each refusal; `bounds`: each error term; `headers`: each fault in C++."""

    def sites(self) -> list[Site]:
        """Every rule, in the order of files and lines."""
        find = {"checks": check_sites, "bounds": bound_sites, "headers": cpp_sites}[self.kind]
        paths = sorted(p for pattern in self.files for p in _files(pattern))
        return [s for p in paths for s in find(str(p.relative_to(ROOT)), p.read_text("utf-8"))]


def _files(pattern: str) -> list[Path]:
    """The files of a pattern, of which there has to be one."""
    found = list(ROOT.glob(pattern))
    if not found:
        raise FileNotFoundError(f"no file is {pattern}")
    return found


FAMILIES = {
    "verifier": Family(
        ("septran/tile/verify/*.py",),
        (
            "tests/tile/test_verify.py", "tests/test_rare_errors.py", "tests/tile/passes",
            "tests/tile/test_mutations.py", "tests/tile/test_region_mutations.py",
            "tests/tile/test_collisions.py", "tests/tile/test_contracts.py",
            "tests/tile/test_asked_layouts.py", "tests/tile/test_lost_writes.py",
        ),
    ),
    "bounds": Family(
        ("septran/runtime/accuracy.py", "septran/runtime/rounding.py"),
        ("tests/runtime/test_rounding.py", "tests/runtime/test_accuracy.py"),
        "bounds",
    ),
    "checks": Family(
        ("septran/runtime/checks.py", "septran/runtime/accuracy.py"),
        ("tests/runtime/test_checks.py", "tests/runtime/test_accuracy.py",
         "tests/test_rare_errors.py"),
    ),
    "interpreter": Family(
        (
            "septran/tile/interpret/*.py", "septran/tile/verify/bijection.py",
            "septran/tile/verify/collisions.py", "septran/tile/verify/loop_sampling.py",
            "septran/tile/analyses/barriers.py", "septran/tile/analyses/row_shares.py",
            "septran/tile/analyses/scopes.py", "septran/tile/layouts.py",
            "septran/tile/user_passes.py", "septran/ir/bounds.py",
        ),
        (
            "tests/tile/test_interpreter.py", "tests/tile/test_channel_state.py",
            "tests/tile/test_row_shares.py", "tests/tile/test_verify.py",
            "tests/tile/test_layouts.py", "tests/tile/test_user_passes.py",
            "tests/test_rare_errors.py", "tests/tile/test_loop_sampling.py",
            "tests/tile/test_asked_layouts.py", "tests/tile/passes",
        ),
    ),
    "simulator": Family(
        ("septran/simulator/*.py", "septran/simulator/*/*.py"),
        ("tests/simulator", "tests/test_rare_errors.py"),
    ),
    "emulator": Family(
        (f"{EMULATOR}/runtime/*.h",),
        ("tests/emulator",),
        "headers",
    ),
}  # fmt: skip
