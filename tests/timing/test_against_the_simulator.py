"""Cycles that are worked out without data beside those of the simulator, which runs the program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import septran
from benchmarks.model import pairs
from septran import operators
from septran.request import CompileRequest
from septran.targets.dsa.schedule.control import work_out
from septran.tile.analyses.indirect import indirect, supposed_tables
from septran.tuning.model import predict

ROOT = Path(septran.__file__).parent.parent
FEW = ("gemm", "softmax", "embedding", "grouped_gemm")
WORST = 0.15
"""What the model may be off by at worst."""


@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
@pytest.mark.parametrize("operator", FEW)
def test_the_shipped_mapping_takes_the_predicted_cycles(operator, machine):
    (found,) = pairs(CompileRequest.of(operator, machine).with_example(), 0, 0)
    # Cores that share main memory are taken to have equal shares; one core has no such doubt.
    assert found.off <= (WORST if machine == "npu-cube" else 0.0), found


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
@pytest.mark.parametrize("operator", operators.names())
def test_random_mappings_take_about_the_predicted_cycles(operator, machine):
    first = CompileRequest.of(operator, machine).with_example()
    off = [pair.off for pair in pairs(first, 2, 7)]
    assert max(off, default=0.0) <= WORST


def test_the_stages_of_a_pipeline_change_the_prediction():
    """They had one prediction, whatever they were, as every resource was busy at all times."""
    text = (ROOT / "mappings" / "dsa-sim.mapping.yaml").read_text("utf-8")
    two, one = (
        predict(septran.produce_stages("gemm", text.replace("pipeline: 2", to)).tile_program)
        for to in ("pipeline: 2", "pipeline: 1")
    )
    assert one.cycles > 1.3 * two.cycles
    assert one.schedule.by.name == "MMA"
    assert dict(one.schedule.by.waits)["dma_in"] > dict(two.schedule.by.waits)["dma_in"]


def test_supposed_tables_give_the_program_that_is_supposed():
    program = septran.produce_stages("grouped_gemm", "dsa-sim").tile_program
    tables = supposed_tables(program)
    assert set(tables) == set(indirect(program.body))
    assert work_out(program).cycles == predict(program).cycles
    # Longer sections are more work.
    empty = {name: np.zeros_like(table) for name, table in tables.items()}
    assert work_out(program, empty).cycles < work_out(program).cycles
