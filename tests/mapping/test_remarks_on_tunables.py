"""What a mapping's reader would not expect of tunables and launches is remarked."""

import pytest

import septran
from septran import task

MAPPING = """
extends: {machine}.mapping.yaml
rules:
  - {{match: {{task: gemm}}, tunables: {{block_M: [{{when: K >= 8, value: 128}}, 16]}}}}
"""


def remarks(shapes, machine="dsa-sim"):
    text = MAPPING.format(machine=machine)
    resolved = septran.produce_stages("gemm", text, shapes=shapes).mapping
    return [d for d in resolved.decisions if "passed over" in d.message]


@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
def test_a_case_that_is_passed_over_for_its_size_is_told(machine):
    (remark,) = remarks({"M": 40, "N": 40, "K": 40}, machine)
    assert remark.message == (
        "block_M is 16: the case 128, `when: K >= 8`, is passed over, "
        "as what it cuts is not longer than 64"
    )
    assert remark.where.line == 4
    explained = septran.explain(
        "gemm", MAPPING.format(machine=machine), shapes={"M": 40, "N": 40, "K": 40}
    )
    assert remark.message in str(explained)


@pytest.mark.parametrize("shapes", [(100, 40, 40), (40, 40, 4), (10, 40, 40)])
def test_no_remark_where_a_case_is_taken_or_nothing_is_lost(shapes):
    """A case that fits, one whose condition does not hold, a dimension that cuts every value."""
    assert not remarks(dict(zip("MNK", shapes, strict=True)))


@task.define(leaf=True)
def double(Y, X):
    Y[:] = X * 2.0


@task.define
def block(Y, X, *, count: task.static = 1, looped: task.static = False):
    for k in task.sequential_range(count) if looped else range(count):
        task.launch(double, Y[k : k + 1], X[k : k + 1])


@task.define
def many(
    Y: task.Tensor["N"], X: task.Tensor["N"], *,
    count: task.static = 1, looped: task.static = False,
):  # fmt: skip
    for _ in task.parallel_range(1):
        task.launch(block, Y, X, count=count, looped=looped)


@pytest.mark.parametrize(
    ("count", "looped", "told"), [(40, False, True), (40, True, False), (8, False, False)]
)
def test_launches_that_python_repeats_are_told(count, looped, told):
    static = {"count": count, "looped": looped}
    stages = septran.produce_stages(many, "cpu-x86", shapes={"N": 64}, static=static)
    found = [d for d in stages.mapping.decisions if "from one line" in d.message]
    assert len(found) == told
    if told:
        assert found[0].message.startswith("block launches double 40 times from one line")
        assert "task.sequential_range(40)" in found[0].hint
