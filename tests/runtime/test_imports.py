"""Importing the runtime is cheap: TVM, torch and pandas come when they are needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_kernels_are_imported_without_the_heavy_packages():
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import septran.runtime.kernel;"
        "heavy = {'tvm', 'tvm_ffi', 'torch', 'pandas', 'matplotlib', 'filelock', 'platformdirs'};"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_nothing_is_pickled():
    """But for what a search sends to the workers of a cluster, which SECURITY.md tells."""
    for path in (ROOT / "septran").rglob("*.py"):
        if path.parent == ROOT / "septran/tuning/cluster":
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            words = line.replace("(", " ").replace(".", " ").split()
            assert not {"pickle", "cloudpickle", "marshal"} & set(words), f"{path}: {line}"
