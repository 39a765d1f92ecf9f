"""Operators one after another as one task: dimensions, temporaries, one program, one call."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import septran
from septran import task
from septran.sequences.steps import SequenceError
from septran.task import Task
from septran.tile.ledger import ledger

STEPS = ["H = rms_norm(X, norm, eps=eps)", "Z = swiglu(H, gate, up)", "Y = gemm(Z, down.T)"]
LONG = [*STEPS[:2], "P = gemm(Z, down.T)", "Q = softmax(P)", "Y = gemm(Q, last)"]


def feed_forward() -> Task:
    return septran.sequence(
        [
            "H = rms_norm(X, norm, eps=eps)",
            "Z = swiglu(H, gate, up)",
            "Y = gemm(Z, down, trans_b=True)",
        ],
        name="feed_forward",
    )


def arrays(rows: int = 5, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shapes = ((rows, 64), (64,), (64, 96), (64, 96), (64, 96))
    return [torch.randn(shape).to(dtype) for shape in shapes]


def test_dimensions_of_operators_become_those_of_the_sequence() -> None:
    found = {name: kind.dims for name, kind in feed_forward().tensors}
    assert found == {
        "Y": ("M", "N3"),
        "X": ("M", "N"),
        "norm": ("N",),
        "gate": ("N", "N2"),
        "up": ("N", "N2"),
        "down": ("N3", "N2"),
    }


def test_one_kernel_is_right_for_every_number_of_rows() -> None:
    kernel = septran.compile(feed_forward(), "cpu-x86", dynamic={"M": (1, 32)})
    for rows in (1, 5):
        assert kernel.check(*arrays(rows), eps=1e-5).right


def test_types_between_operators_follow_from_them() -> None:
    kernel = septran.compile(feed_forward(), "cpu-x86")
    assert kernel.check(*arrays(3, torch.bfloat16)).right
    between = [b for b in kernel.stages.tile_program.buffers if b.tensor in ("H", "Z")]
    assert {b.tensor: b.dtype for b in between} == {"H": "bfloat16", "Z": "bfloat16"}


def test_temporaries_share_one_arena() -> None:
    sizes = {"M": 16, "N": 64, "N2": 96, "N3": 64}
    one = septran.sequence(LONG, name="long")
    shapes = {n: tuple(sizes.get(str(d), 64) for d in k.dims or (64, 96)) for n, k in one.tensors}
    shapes["down"] = (64, 96)
    program = septran.produce_stages(one, "cpu-x86", shapes=shapes).tile_program
    tensors = {b.name: b.tensor for b in program.buffers}
    at = {tensors[place.buffer]: place.offset_bytes for place in program.plan}
    # H has been read when P is written, and Z when Q is.
    assert {at["P"], at["Q"]} & {at["H"], at["Z"]}


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim"])
def test_ledger_says_what_one_task_would_save(machine: str) -> None:
    shapes = {"X": (16, 64), "norm": (64,), "gate": (64, 96), "up": (64, 96), "down": (64, 96)}
    program = septran.produce_stages(feed_forward(), machine, shapes=shapes).tile_program
    found = {h.tensor: h for h in ledger(program).handovers}
    assert (found["H"].writers, found["H"].readers) == (("rms_norm",), ("swiglu",))
    assert (found["Z"].writers, found["Z"].readers) == (("swiglu",), ("gemm",))
    assert found["H"].bytes == 16 * 64 * 4
    assert found["H"].saved_bytes >= 2 * found["H"].bytes
    assert "one task saves" in str(ledger(program))


def test_an_operator_alone_hands_nothing_over() -> None:
    program = septran.produce_stages("gemm", "dsa-sim").tile_program
    assert ledger(program).handovers == ()


def test_views_and_own_tasks_are_steps() -> None:
    @task.define(leaf=True)
    def twice(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]) -> None:
        Y[:, :] = X + X

    one = septran.sequence(["A = double(X.T)", "Y = gemm(A, X)"], operators={"double": twice})
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    kernel = septran.compile(one, "cpu-x86", shapes={"X": (3, 4), "Y": (4, 4)})
    np.testing.assert_array_equal(kernel(x), 2 * x.T @ x)


def test_what_is_kept_is_a_result_too() -> None:
    one = septran.sequence(["H = softmax(X)", "Y = gemm(H, W)"], keep=["H"])
    assert [name for name, _ in one.tensors] == ["H", "Y", "X", "W"]
    assert septran.compile(one).check(torch.randn(7, 9), torch.randn(9, 5)).right


def test_it_is_an_operator_of_torch_and_a_library(tmp_path) -> None:
    given = arrays(4)
    kernel = septran.compile(feed_forward(), "cpu-x86")
    op = septran.torch.op(feed_forward(), "cpu-x86", name="tests_sequences::feed_forward")
    assert torch.equal(op(*given), kernel(*given))
    kernel.export(tmp_path)
    assert (tmp_path / "include" / "feed_forward.h").is_file()


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([], "no list of steps"),
        ("Y = softmax(X)", "no list of steps"),
        (["softmax(X)"], "is no step"),
        (["Y = softmax(X"], "is not valid"),
        (["Y[0] = softmax(X)"], "has no name"),
        (["Y = softmx(X)"], "no operator 'softmx'"),
        (["Y = softmax(X, W)"], "has 1 on its left and 2 tensors"),
        (["Y = gemm(A, B, trans=True)"], "no keyword 'trans'"),
        (["Y = gemm(A, B, trans_b=[n])"], "neither a value nor a name"),
    ],
)
def test_mistakes_are_at_the_step(steps: list[str], words: str) -> None:
    with pytest.raises(SequenceError, match=words) as caught:
        septran.sequence(steps)
    assert caught.value.where is not None


def test_a_mistake_names_the_line_of_its_step() -> None:
    with pytest.raises(SequenceError) as caught:
        septran.sequence(
            [
                "H = softmax(X)",
                "Y = gem(H, W)",
            ]
        )
    assert caught.value.where is not None
    assert '"Y = gem(H, W)"' in caught.value.where.text
    assert "did you mean 'gemm'?" in str(caught.value)


def test_shapes_that_do_not_follow_are_refused() -> None:
    @task.define(leaf=True)
    def some(Y: task.Tensor["K"], X: task.Tensor["M", "N"]) -> None:
        Y[:] = task.sum(X[: Y.shape[0]], axis=1)

    own = {"some": some, "twice": twice_of()}
    one = septran.sequence(["A = some(X)", "Y = twice(A)"], operators=own)
    with pytest.raises(SequenceError, match="shape of Y of some does not follow"):
        septran.produce_stages(one, "cpu-x86", shapes={"X": (4, 4), "Y": (4,)}).task_tree  # noqa: B018


def twice_of() -> Task:
    @task.define(leaf=True)
    def twice(Y: task.Tensor["M"], X: task.Tensor["M"]) -> None:
        Y[:] = X + X

    return twice


def test_places_are_those_of_the_steps() -> None:
    tree = septran.produce_stages(
        feed_forward(), shapes={"M": 2, "N": 64, "N2": 96, "N3": 64}
    ).task_tree
    lines = [launch.location.text for launch in tree.root.launches()]
    assert ["rms_norm" in lines[0], "swiglu" in lines[1], "gemm" in lines[2]] == [True] * 3
