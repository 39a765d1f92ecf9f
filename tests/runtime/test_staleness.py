"""Cache keys: everything that changes a kernel changes its key, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import septran
from septran.runtime import cache as cache_module
from septran.runtime.cache import Cache
from tests.scripts import WITHOUT_TORCH

ROOT = Path(__file__).parents[2]
LOGIC = """\
from septran import task

SCALE = 2.0


def scaled(x):
    return x * SCALE


@task.define(leaf=True)
def rows(Y, X, *, extra: task.static = False):
    Y[:, :] = scaled(X) + (1.0 if extra else 0.0)


@task.define
def scale(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], *, extra: bool = False):
    block_m = task.tunable("block_M")
    Yp = task.partition(Y, shape=(block_m, Y.shape[1]))
    Xp = task.partition(X, shape=(block_m, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(rows, Yp[i, 0], Xp[i, 0], extra=extra)
""".replace(", *, extra: task.static = False", ", *, extra: bool = False")
MAPPING = """\
machine: cpu-x86
entrypoint: scale
task_mappings:
  scale:
    task_name: scale
    proc: HOST
    mems: {Y: DRAM, X: DRAM}
    tunables: {block_M: 8}
    calls: {rows: rows}
  rows:
    task_name: rows
    proc: CORE
    mems: {Y: DRAM, X: DRAM}
"""


class _Stop(Exception):
    pass


@pytest.fixture
def key(tmp_path, monkeypatch):
    """A function from a logic, a mapping and options to the key of the kernel."""
    keys = []

    def record(self, key, load, build):
        keys.append(key)
        raise _Stop

    monkeypatch.setattr(Cache, "load_or_build", record)

    def key_of(logic=LOGIC, mapping=MAPPING, shapes=(16, 12), name="logic.py", **options):
        (tmp_path / name).write_text(logic)
        (tmp_path / "scale.mapping.yaml").write_text(mapping)
        options.setdefault("dtypes", {"X": "float32"})
        with pytest.raises(_Stop):
            septran.compile(
                tmp_path / name,
                tmp_path / "scale.mapping.yaml",
                shapes={"X": shapes},
                **options,
            )
        return keys[-1]

    return key_of


def changed(text, old, new):
    assert old in text
    return text.replace(old, new)


DIFFERENT = {
    "the body of a task": {"logic": changed(LOGIC, "scaled(X) +", "scaled(X) -")},
    "a function that it calls": {"logic": changed(LOGIC, "x * SCALE", "x / SCALE")},
    "a constant": {"logic": changed(LOGIC, "SCALE = 2.0", "SCALE = 3.0")},
    "the name of the task": {
        "logic": changed(LOGIC, "def scale(", "def scale2("),
        "mapping": changed(MAPPING, "task_name: scale", "task_name: scale2"),
    },
    "the order of axes": {"logic": changed(LOGIC, "block_m, Y.shape[1]", "block_m, 5")
                          .replace("block_m, X.shape[1]", "block_m, 5")
                          .replace("for i in task.parallel_range(Yp.shape[0])",
                                   "for i, j in task.parallel_range(Yp.shape)")
                          .replace("Yp[i, 0], Xp[i, 0]", "Yp[i, j], Xp[i, j]")},
    "a tunable": {"mapping": changed(MAPPING, "block_M: 8", "block_M: 4")},
    "a memory": {"mapping": changed(MAPPING, "CORE\n    mems: {Y: DRAM, X: DRAM}",
                                    "CORE\n    mems: {Y: DRAM, X: L2}")},
    "a processor": {"mapping": changed(MAPPING, "proc: CORE", "proc: HOST")},
    "the machine": {"mapping": changed(MAPPING, "machine: cpu-x86", "machine: small.yaml")},
    "a tunable given in the call": {"tunables": {"block_M": 16}},
    "a static flag": {"static": {"extra": True}},
    "the shapes": {"shapes": (16, 13)},
    "the dtypes": {"dtypes": {"X": "float64"}},
}  # fmt: skip


@pytest.fixture
def _small_machine(tmp_path):
    source = (ROOT / "mappings" / "machines" / "cpu-x86.yaml").read_text()
    text = changed(source, "name: cpu-x86", "name: small")
    (tmp_path / "small.yaml").write_text(changed(text, "arch: native", "arch: avx2"))


@pytest.mark.usefixtures("_small_machine")
@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT)
def test_what_changes_the_kernel_changes_the_key(key, change):
    assert key(**change) != key()


@pytest.mark.parametrize("package", ["septran", "apache-tvm"])
def test_versions_change_the_key(key, monkeypatch, package):
    before = key()
    versions = cache_module._versions() | {package: "other"}
    monkeypatch.setattr(cache_module, "_versions", lambda: versions)
    assert key() != before


def test_the_target_changes_the_key(key, monkeypatch):
    from septran.targets.cpu.target import CpuTarget

    before = key()
    monkeypatch.setattr(CpuTarget, "fingerprint", lambda self: "another compiler")
    assert key() != before


SAME = {
    "nothing": {},
    "a comment": {"logic": LOGIC + "\n# a comment\n", "mapping": MAPPING + "# a comment\n"},
    "a docstring elsewhere": {"logic": LOGIC + '\n\ndef unused():\n    """Not called."""\n'},
    "an unused task": {"logic": LOGIC + "\n\n@task.define(leaf=True)\ndef f(A):\n    A[:] = 1\n"},
}  # fmt: skip


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_what_changes_nothing_keeps_the_key(key, change):
    before = key()
    assert key(**change) == before


def test_keys_do_not_depend_on_what_was_compiled_before(key):
    first = key()
    key(shapes=(3, 4))
    key(mapping=DIFFERENT["a tunable"]["mapping"])
    assert key() == first


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
{first}
from septran.runtime.cache import Cache
import septran
def record(self, key, load, build):
    print(key)
    sys.exit()
Cache.load_or_build = record
septran.compile("gemm", "cpu-x86", shapes={{"M": 70, "N": 50, "K": 33}})
"""


@pytest.mark.slow
def test_another_process_with_other_hashes_has_the_same_key(monkeypatch):
    keys = []

    def record(self, key, load, build):
        keys.append(key)
        raise _Stop

    monkeypatch.setattr(Cache, "load_or_build", record)
    with pytest.raises(_Stop):
        septran.compile("gemm", "cpu-x86", shapes={"M": 70, "N": 50, "K": 33})
    script = SCRIPT.format(root=str(ROOT), first=WITHOUT_TORCH)
    env = {**os.environ, "PYTHONHASHSEED": str(hash("a") % 1000)}  # never this process's own
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == keys[0]
