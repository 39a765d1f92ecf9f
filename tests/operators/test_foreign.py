"""Operators that the library does not have, under the shipped mappings: none is refused."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest

import septran
from septran.tile.verify.verifier import verify
from tests.tiers import in_turn

FOLDER = Path(__file__).parent / "foreign"
LOGIC = {path.stem: path for path in sorted(FOLDER.glob("*.py"))}
SIMULATED = ("dsa-sim", "npu-cube")
GPUS = ("nvidia-a100", "nvidia-h200", "amd-mi300x")


def sizes(name):
    """The example and two ragged cases."""
    known = run_path(str(LOGIC[name]))
    return (known["EXAMPLE"], *known["CASES"])


def test_there_are_a_dozen():
    assert len(LOGIC) >= 12


@pytest.mark.parametrize("name", ["average_pool", "causal_conv1d", "distances", "kmeans_step"])
@pytest.mark.one_in(2)
def test_it_is_right_where_tiles_are_smaller(name):
    check(name, "npu-cube", sizes(name)[1], "float32")


def test_products_in_loops_that_nothing_spreads_are_one_core_s():
    check("nested_products", "cpu-x86", sizes("nested_products")[0], "float32")


@pytest.mark.parametrize(
    ("machine", "how"), [("dsa-sim", {}), ("npu-cube", {}), ("nvidia-a100", {"emulate": True})]
)
def test_a_parallel_loop_below_what_one_unit_runs_is_its_own(machine, how):
    check("inner_tiles", machine, sizes("inner_tiles")[1], "float32", **how)


EACH_TYPE = [
    *((machine, "float32") for machine in SIMULATED),
    *((machine, "float16") for machine in SIMULATED[::-1]),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "on"),
    [
        *in_turn(LOGIC, EACH_TYPE, alone=True),
        *in_turn(LOGIC, EACH_TYPE, first=2, alone=True),  # the other machine in the other type
    ],
)
def test_it_is_right_with_all_sizes_and_types(name, on):
    machine, dtype = on
    for shapes in sizes(name):
        check(name, machine, shapes, dtype)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "machine"), in_turn(LOGIC, ["nvidia-a100", "nvidia-h200"], first=1, alone=True)
)
def test_it_is_right_on_an_emulated_machine(name, machine):
    check(name, machine, sizes(name)[1], "float32", emulate=True)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("machine", SIMULATED)
@pytest.mark.parametrize("name", LOGIC)
def test_it_fits(name, machine):
    verify(septran.produce_stages(LOGIC[name], machine, shapes=sizes(name)[0]).tile_program)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("machine", GPUS)
@pytest.mark.parametrize("name", LOGIC)
def test_it_fits_with_all_sizes_and_types(name, machine, dtype):
    for shapes in sizes(name):
        stages = septran.produce_stages(LOGIC[name], machine, shapes=shapes, dtypes=dtype)
        verify(stages.tile_program)


def test_rows_that_are_longer_than_a_box_are_copied_by_another_engine():
    shapes = sizes("distances")[2]  # rows of 300 elements, and a box of TMA has 256
    stages = septran.produce_stages(LOGIC["distances"], "nvidia-h200", shapes=shapes)
    assert stages.tensor_ir is not None


def test_tiles_leave_room_for_what_threads_exchange():
    shapes = sizes("kmeans_step")[2]
    stages = septran.produce_stages(LOGIC["kmeans_step"], "nvidia-a100", shapes=shapes)
    assert stages.tensor_ir is not None
    told = [d.message for d in stages.mapping.decisions]
    assert any("is made smaller" in m and "SHARED would have to hold" in m for m in told)


def test_tiles_become_smaller_where_only_several_steps_together_fit():
    """With smaller inner tiles alone, what the product needs fits, but not what is exchanged."""
    stages = septran.produce_stages(
        LOGIC["inner_tiles"], "opencl-generic", shapes={"R": 1, "M": 32, "N": 520, "K": 640},
        dtypes="float16", tunables={"wide": 520},
    )  # fmt: skip
    assert stages.tensor_ir is not None


def test_what_nobody_reads_has_registers_too():
    stages = septran.produce_stages(
        LOGIC["greatest_softmax"], "nvidia-a100", shapes=sizes("greatest_softmax")[1]
    )
    assert stages.tensor_ir is not None


def check(name, machine, shapes, dtype, **how):
    """Compiled, run and compared with float64 by the bound of its own rounding."""
    kernel = septran.compile(LOGIC[name], machine, shapes=shapes, dtypes=dtype, **how)
    found = kernel.check()
    assert found.right, str(found)
