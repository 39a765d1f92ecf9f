"""Tiles that fit: what is made smaller, what stays as it is, and what is said of it."""

from __future__ import annotations

from textwrap import dedent

import pytest

import septran
from septran.errors import CapacityRefusal, SepTranError
from septran.mapping.mistakes import MappedCapacityError
from septran.tile.verify.verifier import verify

SHAPES = {"M": 512, "N": 500}
LOGIC = """
    from septran import task

    @task.define(leaf=True)
    def scaled(Y, X):
        Y[:, :] = X * 2

    @task.define
    def twice(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        shape = (task.tunable("tile_high"{default}), task.tunable("tile_wide"{default}))
        Yp, Xp = task.partition(Y, shape=shape), task.partition(X, shape=shape)
        for i, j in task.parallel_range(Yp.shape):
            task.launch(scaled, Yp[i, j], Xp[i, j])
    """
SUMS = """
    from septran import task

    @task.define(leaf=True)
    def rows(Y, X):
        Y[:, :] = task.cumsum(X, axis=1)

    @task.define
    def sums(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        high = task.tunable("high", 4)
        Yp = task.partition(Y, shape=(high, Y.shape[1]))
        Xp = task.partition(X, shape=(high, X.shape[1]))
        for i in task.parallel_range(Xp.shape[0]):
            task.launch(rows, Yp[i, 0], Xp[i, 0])
    """
RULES = """
    machine: dsa-sim
    rules:
      - {{match: {{level: entry}}, proc: HOST, mems: {{"*": GLOBAL}}, tunables: {{{tunables}}}}}
      - {{match: {{loops: parallel}}, proc: CORE, mems: {{"*": SPM}}, binding: vec}}
    """
INSTANCES = """
    machine: dsa-sim
    entrypoint: all
    task_mappings:
      all:
        task_name: twice
        proc: HOST
        mems: {"*": GLOBAL}
        tunables: {tile_high: 512, tile_wide: 512}
      one: {task_name: scaled, proc: CORE, mems: {"*": SPM}, binding: vec}
    """
LARGE = "tile_high: 512, tile_wide: 512"


@pytest.fixture
def logic(tmp_path):
    def write(default=""):
        path = tmp_path / "twice.py"
        path.write_text(dedent(LOGIC.format(default=default)))
        return path

    return write


def rules(tunables):
    return dedent(RULES.format(tunables=tunables))


def remarks(stages, words):
    return [d for d in stages.mapping.decisions if words in d.message]


def sizes(stages):
    return dict(stages.task_tree.root.tunables)


def test_tiles_are_made_smaller_until_they_fit(logic):
    stages = septran.produce_stages(logic(), rules(LARGE), shapes=SHAPES)
    verify(stages.tile_program)
    high, wide = sizes(stages).values()
    held = 2 * high * wide * 4
    assert held <= 256 * 1024 < 8 * held  # no smaller than it must be, of what is twice as large


def test_a_remark_says_what_is_smaller_why_and_how_to_say_it(logic):
    stages = septran.produce_stages(logic(), rules(LARGE), shapes=SHAPES)
    told = remarks(stages, "made smaller")
    changed = {n: v for n, v in sizes(stages).items() if v != 512}
    assert changed
    assert len(told) == len(changed)
    for (name, value), remark in zip(sorted(changed.items()), sorted(told, key=str), strict=True):
        assert (
            f"{name} of twice is made smaller, {value} for 512: SPM would have to" in remark.message
        )
        assert f"- {{match: {{task: twice}}, tunables: {{{name}: {value}}}}}" in remark.hint
        assert remark.where.line == 4


def test_what_the_remarks_propose_needs_no_search(logic):
    found = septran.produce_stages(logic(), rules(LARGE), shapes=SHAPES)
    lines = "\n".join(f"      {d.hint.partition(': ')[2]}" for d in remarks(found, "made smaller"))
    text = RULES.replace(
        "    rules:\n", f"    rules:\n{lines.replace('{', '{{').replace('}', '}}')}\n"
    )
    stages = septran.produce_stages(
        logic(), dedent(text.format(tunables=LARGE)), shapes=SHAPES
    )  # fmt: skip
    assert not remarks(stages, "made smaller")
    assert sizes(stages) == sizes(found)


def test_values_given_with_the_call_stay_as_they_are(logic):
    given = {"tile_high": 512, "tile_wide": 512}
    stages = septran.produce_stages(logic(), rules(LARGE), shapes=SHAPES, tunables=given)
    assert sizes(stages) == given
    with pytest.raises(MappedCapacityError, match="SPM is to hold"):
        _ = stages.tile_program


def test_of_two_the_one_that_is_not_given_is_made_smaller(logic):
    stages = septran.produce_stages(
        logic(), rules(LARGE), shapes=SHAPES, tunables={"tile_high": 512}
    )
    verify(stages.tile_program)
    assert sizes(stages)["tile_high"] == 512 > sizes(stages)["tile_wide"]


def test_what_an_instance_says_is_exact(logic):
    with pytest.raises(MappedCapacityError, match="SPM is to hold"):
        _ = septran.produce_stages(logic(), dedent(INSTANCES), shapes=SHAPES).mapping


def test_what_nobody_gives_a_value_gets_one(logic):
    stages = septran.produce_stages(logic(), rules(""), shapes=SHAPES)
    assert sizes(stages) == {"tile_high": 64, "tile_wide": 64}
    (first, _) = remarks(stages, "as nobody gives it a value")
    assert "tunables: {tile_high: 64}" in first.hint
    verify(stages.tile_program)


def test_a_default_of_the_logic_is_made_smaller(logic):
    stages = septran.produce_stages(logic(", 512"), rules(""), shapes=SHAPES)
    verify(stages.tile_program)
    assert min(sizes(stages).values()) < 512
    assert remarks(stages, "made smaller")


def test_where_no_tiling_fits_the_error_says_so_and_which_memory():
    stages = septran.produce_stages("softmax", "dsa-sim", shapes={"M": 4, "N": 100_000})
    assert stages.task_tree  # earlier stages are there all the same
    with pytest.raises(SepTranError, match="SPM is to hold") as caught:
        _ = stages.tile_program
    assert "no tiling fits, even with smaller block_rows of softmax" in caught.value.hint
    assert "softmax_rows (septran/operators/softmax.py:" in caught.value.hint
    assert "is given all 100,000 elements of an axis of Y at once: cut that axis" in (
        caught.value.hint
    )
    assert "; make the tiles of softmax/softmax_rows smaller, or leave" in caught.value.hint
    assert isinstance(caught.value, CapacityRefusal)
    assert caught.value.shortage.memory == "SPM"


def test_a_scan_of_a_whole_long_axis_is_told_to_walk_it(tmp_path):
    path = tmp_path / "sums.py"
    path.write_text(dedent(SUMS))
    with pytest.raises(SepTranError, match="is given all 100,000 elements of an axis of Y"):
        _ = septran.produce_stages(path, "dsa-sim", shapes={"M": 4, "N": 100_000}).tile_program


@pytest.mark.parametrize("width", [3000, 5000])
def test_what_does_not_fit_for_another_reason_than_a_long_axis_is_told_as_before(width):
    """An attention of heads so wide that one row of keys is too much."""
    shapes = {"B": 1, "H": 1, "G": 1, "M": 8, "N": 8, "D": width}
    with pytest.raises(SepTranError) as caught:
        _ = septran.produce_stages("attention", "npu-cube", shapes=shapes).tensor_ir
    assert "no tiling fits" in str(caught.value)
    assert "is given all" not in str(caught.value)
    assert "; None" not in str(caught.value)


def test_pipelines_get_shorter_where_no_tiles_leave_room_for_all_stages(logic):
    text = rules("").replace("proc: HOST,", "proc: HOST, pipeline: 16,")
    given = {"tile_high": 8000, "tile_wide": 1}
    stages = septran.produce_stages(logic(), text, shapes={"M": 8000, "N": 9}, tunables=given)
    verify(stages.tile_program)
    assert any("lowered to" in r.message for r in stages.tile_program.remarks)


def test_other_mistakes_are_raised_by_the_stage_that_finds_them(logic):
    stages = septran.produce_stages(logic(), rules(LARGE).replace("vec", "mma"), shapes=SHAPES)
    assert stages.task_tree
    with pytest.raises(SepTranError, match="no instruction accepts map"):
        _ = stages.mapping
