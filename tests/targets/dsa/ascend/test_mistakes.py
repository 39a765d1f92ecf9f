"""Mistakes in the text of a kernel: each is found by the header's rules or by the simulator."""

from __future__ import annotations

import re

import numpy as np
import pytest

import septran
from septran.errors import SepTranError

SHAPES = {"M": 128, "N": 128, "K": 192}


@pytest.fixture(scope="module")
def product():
    return septran.compile("gemm", "ascend-910b", shapes=SHAPES)


@pytest.fixture(scope="module")
def rows():
    return septran.compile("softmax", "ascend-910b", shapes={"M": 16, "N": 1024})


def inputs_of(kernel):
    random = np.random.default_rng(2)
    program = kernel.stages.tile_program
    shapes = {name: program.buffer(name).shape for name in program.params}
    return {n: random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def test_the_text_itself_is_right(edited, product):
    inputs = inputs_of(product)
    found = edited(product).change("extern", "// as it is\nextern").run(**inputs)
    exact = inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64)
    assert np.allclose(found, exact, rtol=1e-4, atol=1e-4)


def without(changed, *calls):
    """The text without the lines that have one of these calls."""
    changed.lines = [x for x in changed.lines if not any(call in x for call in calls)]
    return changed


@pytest.mark.parametrize("name", ["MTE2_MTE1", pytest.param("M_FIX", marks=pytest.mark.slow)])
def test_a_missing_wait_is_a_hazard(edited, product, name):
    changed = without(
        edited(product), f"SetFlag<HardEvent::{name}>", f"WaitFlag<HardEvent::{name}>"
    )
    with pytest.raises(SepTranError) as caught:
        changed.run(**inputs_of(product))
    assert caught.value.code == "SEP554", caught.value


@pytest.mark.slow
def test_a_flag_that_nobody_waits_for_is_found(edited, product):
    with pytest.raises(SepTranError) as caught:
        without(edited(product), "WaitFlag<HardEvent::M_FIX>").run(**inputs_of(product))
    assert caught.value.code in ("SEP554", "SEP555", "SEP556"), caught.value


@pytest.mark.slow
def test_an_early_refill_is_a_hazard(edited, product):
    free = ("SetFlag<HardEvent::MTE1_MTE2>", "WaitFlag<HardEvent::MTE1_MTE2>")
    with pytest.raises(SepTranError) as caught:
        without(edited(product), *free).run(**inputs_of(product))
    assert caught.value.code == "SEP554", caught.value


@pytest.mark.slow
def test_a_wrong_stride_gives_wrong_numbers(edited, product):
    inputs = inputs_of(product)
    exact = inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64)
    text = product.stages.source.text
    old = re.search(r"fractals_in\(A_L1.*?, 192, 128, 64\);", text)[0]
    found = edited(product).change(old, old.replace(", 192, 128", ", 191, 128")).run(**inputs)
    assert not np.allclose(found, exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(rows + 15) / 16 * 16, dstPitch", "rows / 2, dstPitch", "Fixpipe reads"),
        pytest.param(
            "Params(0, blocks, 1,", "Params(0, blocks - 1, 1,", "Mmad reads rows",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "left_in(A_L0A", "left_in(A_L0A[64]", "no multiple of 512", marks=pytest.mark.slow
        ),
        pytest.param("(0);", "(9);", "event 9", marks=pytest.mark.slow),
        pytest.param(
            "l0c.GetWithOffset<float>(16384, 0)", "l0c.GetWithOffset<float>(16384, 131072)",
            "beyond the end", marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_what_the_reference_forbids_is_an_error_of_its_own(edited, product, old, new, message):
    with pytest.raises(SepTranError, match=message) as caught:
        edited(product).change(old, new).run(**inputs_of(product))
    assert caught.value.code == "SEP548"


def test_a_missing_barrier_of_the_vector_pipe_is_found(edited, rows):
    with pytest.raises(SepTranError, match="PipeBarrier<PIPE_V>") as caught:
        edited(rows).change("    PipeBarrier<PIPE_V>();\n", "", count=None).run(**inputs_of(rows))
    assert caught.value.code == "SEP548"


@pytest.mark.slow
def test_what_nobody_copied_in_is_found(edited, rows):
    with pytest.raises(SepTranError) as caught:
        without(edited(rows), "rows_in(X_UB").run(**inputs_of(rows))
    assert caught.value.code in ("SEP553", "SEP554"), caught.value
