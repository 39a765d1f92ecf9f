"""What a run cannot do: record without memory, profile where nothing is launched."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import septran
from septran.runtime.errors import NothingToProfileError
from septran.targets.dsa.code.native import LOST, CProgram, RecordingError
from septran.targets.dsa.code.recorder import BEGIN, TAKE


class Exhausted:
    """A library whose recorder found no memory."""

    def __getattr__(self, name):
        assert name in (BEGIN, TAKE)
        kind = ctypes.c_void_p if name == TAKE else ctypes.c_int32
        return ctypes.CFUNCTYPE(ctypes.c_int64, kind)(lambda _: LOST)

    def __getitem__(self, name):
        return ctypes.CFUNCTYPE(None, ctypes.c_int32)(lambda core: None)


def test_a_recorder_without_memory_says_so():
    program = CProgram(Path("kernel.so"), "scaled", 0, (), Exhausted())
    with pytest.raises(RecordingError, match="no memory is left for the commands of scaled"):
        program(0, ())


def test_there_is_nothing_to_profile_where_nothing_is_launched():
    kernel = septran.compile("softmax", "dsa-sim")
    with pytest.raises(NothingToProfileError, match="launches nothing for empty tensors"):
        kernel.profile(np.zeros((0, 8), "float32"))
