"""Expressions whose intermediate results vector registers do not hold at one time."""

import shutil

import pytest

import septran
from septran.machine.loader import mappings_root

TRANSPOSED = """
    @task.define(leaf=True)
    def tile(Y, t):
        Y[:, :] = t
        Y[:, :] = Y - Y.T

    @task.define
    def antisymmetric(Y: task.Tensor["B", "M", "M"], X: task.Tensor["B", "M", "M"]):
        for i in task.parallel_range(X.shape[0]):
            task.launch(tile, Y[i], X[i])
"""

WINDOWED = """
    @task.define(leaf=True)
    def tile(Y, X, W):
        Y[:, :] = task.silu(task.sum(X * W[:, None, :], axis=2)) * task.max(X, axis=2)

    @task.define
    def windowed(
        Y: task.Tensor["C", "L"], X: task.Tensor["C", "L"], W: task.Tensor["C", "T"]
    ):
        taps = W.shape[1]
        seen = task.window(
            X, size=(taps,), stride=(1,), padding=(taps - 1,), dilation=(1,)
        )[:, :X.shape[1]]
        Yp = task.partition(Y, shape=(64, 64))
        Sp = task.partition(seen, shape=(64, 64, taps))
        Wp = task.partition(W, shape=(64, taps))
        for i, j in task.parallel_range(Yp.shape):
            task.launch(tile, Yp[i, j], Sp[i, j, 0], Wp[i, 0])
"""

CASES = [
    ("antisymmetric", TRANSPOSED, {"B": 1, "M": 92}),
    ("windowed", WINDOWED, {"C": 64, "L": 70, "T": 3}),
]
case = pytest.mark.parametrize(("entry", "text", "shapes"), CASES, ids=[c[0] for c in CASES])


def parts(stages):
    return [b.name for b in stages.tile_program.buffers if "_part" in b.name]


@case
@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
def test_they_are_right(entry, text, shapes, machine, logic, right, monkeypatch):
    monkeypatch.setenv("SEPTRAN_DSA_ADVERSARIAL", "1")
    path = logic(entry, text)
    assert parts(septran.produce_stages(path, machine, shapes=shapes))
    right(path, machine, shapes)


@case
def test_so_they_are_where_registers_share_the_scratchpad(
    entry, text, shapes, logic, right, tmp_path
):
    folder = mappings_root() / "machines"
    shutil.copy(folder / "dsa-sim.h", tmp_path)
    machine = tmp_path / "dsa-sim.yaml"
    words = (folder / "dsa-sim.yaml").read_text()
    machine.write_text(words.replace("temporaries: VREG", "temporaries: SPM"))
    path = logic(entry, text)
    right(path, "dsa-sim", {n: min(s, 40) for n, s in shapes.items()}, machine=str(machine))


def test_small_ones_stay_in_registers(logic):
    stages = septran.produce_stages(
        logic("antisymmetric", TRANSPOSED), "dsa-sim", shapes={"B": 1, "M": 32}
    )
    assert parts(stages) == []


def test_the_remark_says_where_they_are(logic):
    stages = septran.produce_stages(
        logic("antisymmetric", TRANSPOSED), "dsa-sim", shapes={"B": 1, "M": 92}
    )
    told = [r for r in stages.tile_program.remarks if r.passed == "spill_temporaries"]
    assert [r.message for r in told] == [
        "Y_SPM_part in SPM holds an intermediate result: "
        "vec has no room for it in its own memory of temporaries"
    ]
    assert told[0].where is not None
