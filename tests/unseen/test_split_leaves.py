"""Leaves whose statements need a tensor in different memories: they run one by one."""

import pytest

import septran
from septran.errors import Errors
from septran.mapping.mistakes import NoBindingError
from septran.mapping.printer import to_yaml

SQUARES = """
    @task.define(leaf=True)
    def square(S, t):
        task.fill(S, 0)
        task.call_primitive("gemm", S, t, t)

    @task.define
    def squares(S: task.Tensor["B", "M", "M"], X: task.Tensor["B", "M", "M"]):
        for i in task.parallel_range(X.shape[0]):
            task.launch(square, S[i], X[i])
"""
GRAM = SQUARES.replace("S, t, t)", "S, t, t.T)").replace("squares", "gram")

DECAYED = """
    @task.define(leaf=True)
    def step(acc, A, B):
        acc[:, :] = acc * 0.5
        task.call_primitive("gemm", acc, A, B)

    @task.define(leaf=True)
    def out(C, acc):
        C[:, :] = acc

    @task.define
    def block(C, A, B):
        Ap = task.partition(A, shape=(A.shape[0], 32))
        Bp = task.partition(B, shape=(32, B.shape[1]))
        acc = task.zeros(C.shape, task.float32, name="acc")
        for k in task.sequential_range(Ap.shape[1]):
            task.launch(step, acc, Ap[0, k], Bp[k, 0])
        task.launch(out, C, acc)

    @task.define
    def decayed(
        C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], B: task.Tensor["K", "N"]
    ):
        Cp = task.partition(C, shape=(32, 32))
        Ap = task.partition(A, shape=(32, A.shape[1]))
        Bp = task.partition(B, shape=(B.shape[0], 32))
        for i, j in task.parallel_range(Cp.shape):
            task.launch(block, Cp[i, j], Ap[i, 0], Bp[0, j])
"""

ALL_OF_IT = """
    @task.define(leaf=True)
    def everything(C, A, B):
        half = task.empty(A.shape, task.float32, name="half")
        task.fill(C, 0)
        half[:, :] = A * 0.5
        C[:, :] = C * 0 + task.index(C, axis=0)[:, None]
        task.call_primitive("gemm", C, half, B)
        half[:, :] = half + A
        task.call_primitive("gemm", C, half, B)
        C[:, :] = C - task.max(C, axis=1, keepdims=True)

    @task.define
    def mixed(
        C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], B: task.Tensor["K", "N"]
    ):
        Cp = task.partition(C, shape=(16, C.shape[1]))
        Ap = task.partition(A, shape=(16, A.shape[1]))
        for i in task.parallel_range(Cp.shape[0]):
            task.launch(everything, Cp[i, 0], Ap[i, 0], B)
"""

CASES = [
    ("squares", SQUARES, {"B": 3, "M": 24}),
    ("gram", GRAM, {"B": 3, "M": 24}),
    ("decayed", DECAYED, {"M": 70, "N": 40, "K": 96}),
    ("mixed", ALL_OF_IT, {"M": 40, "N": 24, "K": 16}),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("machine", ["npu-cube", "dsa-sim"])
@pytest.mark.parametrize(("entry", "text", "shapes"), CASES, ids=[c[0] for c in CASES])
def test_they_are_right(entry, text, shapes, machine, logic, right, monkeypatch):
    monkeypatch.setenv("SEPTRAN_DSA_ADVERSARIAL", "1")
    right(logic(entry, text), machine, shapes)


def test_the_remark_says_so(logic):
    stages = septran.produce_stages(logic("squares", SQUARES), "npu-cube", shapes=CASES[0][2])
    assert [d.about for d in stages.mapping.decisions if "one by one" in d.message] == [
        "squares/square"
    ]
    parts = [t.path for t in stages.mapping.tree.tasks()][2:]
    assert parts == ["squares/square/fill", "squares/square/square_gemm"]


def test_a_leaf_that_one_memory_serves_stays_whole(logic):
    stages = septran.produce_stages(logic("squares", SQUARES), "dsa-sim", shapes=CASES[0][2])
    assert stages.mapping.tree == stages.task_tree


def test_the_explicit_mapping_says_it_too(logic, right, tmp_path):
    path = logic("decayed", DECAYED)
    stages = septran.produce_stages(path, "npu-cube", shapes=CASES[2][2])
    explicit = tmp_path / "explicit.yaml"
    explicit.write_text(to_yaml(stages.mapping))
    right(path, str(explicit), CASES[2][2])


EXPLICIT = """
machine: npu-cube
entrypoint: squares
task_mappings:
  squares: {task_name: squares, proc: HOST, mems: {S: GLOBAL, X: GLOBAL}, calls: {square: square}}
  square: {task_name: square, proc: CORE, mems: {S: L0C, t: L0A}, binding: {gemm: cube}}
"""


def test_where_parts_are_no_help_it_is_an_error(logic, tmp_path):
    mapping = tmp_path / "square.yaml"
    mapping.write_text(EXPLICIT)
    stages = septran.produce_stages(logic("squares", SQUARES), str(mapping), shapes=CASES[0][2])
    with pytest.raises((NoBindingError, Errors)) as error:
        str(stages.mapping)
    assert "t is in L0A, and it takes B from L0B" in str(error.value)
    assert "in a leaf of its own its tensors can be placed for it alone" in str(error.value)
