"""Temporary folders go with their processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from septran import temporary
from septran.temporary import TemporaryFolder, sweep

HOLD = """
from septran.temporary import TemporaryFolder
folder = TemporaryFolder("test")
(folder.path / "inside").write_text("x")
print(folder.path, flush=True)
input()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(temporary, "YOUNG_SECONDS", -1.0)
    yield tmp_path
    tempfile.tempdir = None


def test_a_folder_goes_with_its_object(place):
    folder = TemporaryFolder("test")
    path = folder.path
    assert path.parent == place
    assert path.stat().st_mode & 0o777 == 0o700
    del folder
    assert not path.exists()
    with TemporaryFolder("test") as path:
        assert path.exists()
    assert not path.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no locks of this kind here")
def test_what_a_killed_process_leaves_is_swept_and_nothing_else(place):
    def holder():
        return subprocess.Popen(
            [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    (place / "septran-foreign").mkdir()  # without a lock: nobody knows whose
    mine = TemporaryFolder("test")
    with holder() as killed, holder() as alive:
        left, used = (process.stdout.readline().strip() for process in (killed, alive))
        assert sweep() == 0
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert sweep() == 1
        kept = sorted(map(str, place.iterdir()))
        assert kept == sorted([str(place / "septran-foreign"), str(mine.path), used])
        assert left not in kept
        alive.communicate("\n")
    assert not os.path.exists(used)  # noqa: PTH110 - it is a text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # JAX's, of a fork
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_a_forked_process_leaves_its_parents_folder(place):
    folder = TemporaryFolder("test")
    child = os.fork()
    if child == 0:
        folder._remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.path.exists()
