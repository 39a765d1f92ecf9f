"""A small machine with round figures, and streams written by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from septran.machine.loader import load_machine
from septran.machine.model import Machine
from septran.simulator.commands import memory_address, parameter_address
from septran.simulator.script import Script

TOY = """
name: toy
backend: dsa
clock_mhz: 1000
processors:
  HOST: {}
  CORE: {count: 1, of: HOST}
memories:
  GLOBAL: {visible_to: HOST, bandwidth: 16B/cycle, latency: 100cycles}
  SPM: {visible_to: CORE, capacity: 64KiB}
  ACC: {visible_to: CORE, capacity: 64KiB}
engines:
  dma_in: {moves: [GLOBAL->SPM], asynchronous: true, bandwidth: 16B/cycle, queue_depth: 4}
  dma_out:
    moves: [SPM->GLOBAL, ACC->GLOBAL]
    asynchronous: true
    bandwidth: 16B/cycle
    queue_depth: 4
instructions:
  mma:
    primitive: gemm
    tile: [16, 16, 16]
    operands: {C: ACC, A: SPM, B: SPM}
    options: {queue: MMA, startup_cycles: 8, cycles: 16}
  vec:
    primitive: map
    options: {queue: VEC, startup_cycles: 8, lanes: 16, exp_factor: 4}
vendor:
  header: toy.h
  flags: 8
"""
SPM, ACC = memory_address(1), memory_address(2)
IN, OUT, MMA, VEC = range(4)


class Stream(Script):
    """Commands with the arguments that tests seldom change left out."""

    def load(self, spm, parameter, rows, width, *, offset=0, stride=None, dst_stride=None):
        return self.add(
            "dma_copy", queue=IN, dst=SPM + spm, dst_stride=dst_stride or width,
            src=parameter_address(parameter) + offset, src_stride=stride or width, rows=rows,
            row_bytes=width,
        )  # fmt: skip

    def store(self, parameter, source, rows, width, *, offset=0, stride=None, src_stride=None):
        return self.add(
            "dma_copy", queue=OUT, dst=parameter_address(parameter) + offset,
            dst_stride=stride or width, src=source, src_stride=src_stride or width, rows=rows,
            row_bytes=width,
        )  # fmt: skip

    def mma(self, m, n, k, *, a=0, b=0, c=0, kind="float32", c_type="float32", **other):
        item = {"float64": 8, "float32": 4, "int8": 1}.get(kind, 2)
        given = {
            "c_stride": n * (8 if c_type == "float64" else 4), "a_stride": k * item,
            "a_transposed": 0, "b_stride": n * item, "b_transposed": 0, "accumulate": 0,
        }  # fmt: skip
        return self.add(
            "mma", queue=MMA, c=ACC + c, a=SPM + a, b=SPM + b, m=m, n=n, k=k, c_type=c_type,
            type=kind, **(given | other),
        )  # fmt: skip

    def fill(self, dst, value, rows, cols, *, kind="float32", row=None, col=None, item=4):
        return self.add(
            "vec_fill", queue=VEC, dst=dst, dst_row=cols * item if row is None else row,
            dst_col=item if col is None else col, value=value, rows=rows, cols=cols, type=kind,
        )  # fmt: skip

    def flag(self, src, dst, number=0):
        """Set and wait side by side: all on `dst` after all so far on `src`."""
        self.set(src, dst, number)
        self.wait(src, dst, number)

    def set(self, src, dst, number=0):
        return self.add("set_flag", src=src, dst=dst, flag=number)

    def wait(self, src, dst, number=0):
        return self.add("wait_flag", src=src, dst=dst, flag=number)


@pytest.fixture(scope="session")
def toy(tmp_path_factory) -> Machine:
    path = tmp_path_factory.mktemp("machines") / "toy.yaml"
    path.write_text(TOY)
    return load_machine(Path(path))


@pytest.fixture
def cores(toy):
    """The same machine with two cores."""
    processors = tuple(replace(p, count=2 if p.name == "CORE" else 1) for p in toy.processors)
    return replace(toy, processors=processors)


@pytest.fixture
def script():
    return Stream()


@pytest.fixture
def new_script():
    return Stream


@pytest.fixture
def random():
    return np.random.default_rng(7)
