"""The thread pool's size may be set at any time."""

from __future__ import annotations

import subprocess
import sys


def test_threads_may_be_set_before_anything_is_compiled():
    code = "from septran.targets.cpu.threads import set_threads; set_threads(1)"
    subprocess.run([sys.executable, "-c", code], check=True)
