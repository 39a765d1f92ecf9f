"""What an expression holds as a whole is held in pieces where temporaries have no room for it."""

from __future__ import annotations

from textwrap import dedent

import pytest

import septran

LOGIC = """
    from septran import task

    @task.define(leaf=True)
    def leaf(Y, X):
        {body}

    @task.define
    def logic(Y: task.Tensor[{dims}], X: task.Tensor["M", "N"]):
        {partition}
    """
WHOLE = """for i in task.parallel_range(1):
            task.launch(leaf, Y, X)"""
ROWS = """places = task.partition(task.window(X, (3, 3), 1, 1), shape=(48, X.shape[1], 3, 3))
        Yp = task.partition(Y, shape=(48, Y.shape[1]))
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(leaf, Yp[i, 0], places[i, 0, 0, 0])"""
SAME = '"M", "N"'
POOLED = '"(M - 1) // 2 + 1", "(N - 1) // 2 + 1"'
CASES = {
    "padded windows": (
        "Y[:, :] = task.max(task.max(task.window(X, (3, 3), 2, 1), axis=3), axis=2)",
        POOLED, WHOLE, {"M": 64, "N": 100},
    ),
    "long windows": (
        "Y[:, :] = task.sum(task.sum(task.window(X, (5, 3), 1, (2, 1)), axis=3), axis=2) / 15",
        SAME, WHOLE, {"M": 30, "N": 300},
    ),
    "ragged rows": (
        "Y[:, :] = task.index(Y, 0)[:, None] + task.sum(task.max(X, axis=3), axis=2)",
        SAME, ROWS, {"M": 100, "N": 70},
    ),
}  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
@pytest.mark.parametrize("case", CASES)
def test_temporaries_come_in_pieces(case, machine, tmp_path):
    body, dims, partition, shapes = CASES[case]
    path = tmp_path / "logic.py"
    path.write_text(dedent(LOGIC.format(body=body, dims=dims, partition=partition)))
    kernel = septran.compile(path, machine, shapes=shapes)
    found = kernel.check()
    assert found.right, str(found)
