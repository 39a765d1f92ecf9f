"""Rules by what a task computes: products and their operands, whatever anything is called."""

from __future__ import annotations

from dataclasses import replace

import pytest

import septran
from septran import operators, task
from septran.ir.views import View
from septran.location import Location
from septran.machine.positions import Node
from septran.mapping.conditions import condition
from septran.mapping.keys import LAYOUTS
from septran.mapping.mistakes import ConditionError, WrongValueError
from septran.mapping.rules import facts_of_task
from septran.mapping.structure.lying import Surroundings, below
from septran.mapping.structure.products import products_of
from septran.mapping.structure.structure import Structure
from septran.task.check.definedness import ranges_of

TILE = "product/block/tile"


def structures(name, flags=None, **sizes) -> dict[str, Structure]:
    """The structure of each task of a library operator, by its last name."""
    mapping = "extends: cpu-x86\nrules: [{match: {products: 64}, proc: HOST}]"  # asks for drafts
    stages = septran.produce_stages(name, mapping, shapes=sizes, static=flags)
    tree = stages.task_tree
    ranges, found = ranges_of(tree.root), {}

    def visit(node, around, caller):
        draft = tree.drafts.get(node.path)
        facts = facts_of_task(node, dict(tree.dims), dict(tree.static), draft, around, caller)
        found[node.name] = facts.look()
        for launch in node.launches():
            visit(launch.task, below(node, around, launch, ranges), facts)

    homes = {p.name: View.whole(p.name, p.shape) for p in tree.root.params}
    visit(tree.root, Surroundings(homes, ranges), None)
    return found


def extents(structure, number=0):
    product = structure.products[number]
    return tuple(product.extent(kind, structure.shapes) for kind in ("rows", "columns", "sum"))


@pytest.mark.parametrize("sizes", [(70, 130, 90), (1, 130, 90), (70, 1, 90), (1, 1, 1)])
def test_a_product_has_rows_columns_and_a_sum_whatever_the_sizes(sizes):
    m, n, k = sizes
    found = structures("gemm", M=m, N=n, K=k)["gemm_core"]
    assert extents(found) == sizes
    assert found.products[0].order == ("rows", "columns", "sum")
    assert found.parts_of("B") == (
        "first.right", "last.right", "product.right",
    )  # fmt: skip


def test_a_batch_varies_in_all_operands():
    found = structures("batched_gemm", S=3, M=40, N=33, K=70)
    assert found["batched_gemm"].value("product.batch") == 3
    assert found["gemm_core"].value("loops.iterations") == 3
    assert found["batched_gemm"].products[0].order == ("batch", "rows", "columns", "sum")


def test_a_batch_counts_where_an_operand_merges_a_part_of_it_with_its_rows():
    found = structures("attention_decode", B=2, H=8, G=4, N=70, D=16)
    assert found["attention_decode"].value("product.batch") == 8


def test_heads_that_share_keys_are_rows():
    found = structures("attention", {"causal": True}, B=1, H=8, G=2, M=60, N=70, D=16)
    head = found["attention_head"]
    assert extents(head) == (4 * 60, 70, 16)
    assert extents(head, 1) == (4 * 60, 16, 70)
    parts = head.parts
    assert (parts.between, parts.masked, parts.carried) == ("reduction", True, False)
    assert (head.parts_of("K")[0], head.parts_of("V")[0]) == ("first.right", "second.right")


def test_a_state_is_carried_and_no_reduction_lies_between_its_products():
    found = structures("linear_attention", B=1, H=2, N=100, D=24, E=40)["linear_attention_head"]
    assert len(found.products) == 4
    parts = found.parts
    assert (parts.between, parts.masked, parts.carried) == ("elements", True, True)


def test_latents_are_keys_and_values():
    assert structures("mla_decode", B=1, H=16, N=64, C=128, E=64)["mla_heads"].one_right
    assert not structures("attention", B=1, H=2, G=2, M=64, N=64, D=16)["attention_head"].one_right


@pytest.mark.parametrize(
    ("operator", "flags", "computed"),
    [
        ("gemm", {}, set()),
        ("dequant_gemm", {"bits": 4}, {"right"}),
        ("w4a8_gemm", {}, {"left", "right"}),
    ],
)
def test_weights_that_are_unpacked_are_computed(operator, flags, computed):
    assert structures(operator, flags, M=64, N=128, K=128)[operator].computed == computed


def test_a_padded_window_is_seen_through_reshapes_and_tiles():
    flags = {"padding": 1, "stride": 2}
    found = structures("conv2d_nhwc", flags, B=1, H=14, W=13, C=16, R=3, S=3, O=32)
    for name in ("gemm_core", "gemm_block", "gemm_tile"):
        role, window = found[name].window
        assert role == "left"
        assert (window.size, window.stride, window.padding, window.channels) == (9, 2, 1, 16)
    assert (
        structures("conv2d", B=1, C=16, H=9, W=9, O=8, R=2, S=3)["gemm_core"].window[0] == "right"
    )


@pytest.mark.parametrize("operator", ["gemm", "attention", "linear_attention", "dequant_gemm"])
def test_tiles_side_by_side_are_no_window(operator):
    example = operators.load(operator).function.__globals__["EXAMPLE"]
    found = structures(operator, **example)
    assert [name for name, s in found.items() if s.window] == []


def test_a_static_tuple_is_one_and_a_condition_compares_it_as_a_word():
    shapes = {"X": (2, 3, 4), "Y": (4, 2, 3)}
    tree = septran.trace(operators.load("permute"), shapes, static={"order": (2, 0, 1)})
    assert dict(tree.static) == {"order": (2, 0, 1)}
    known = facts_of_task(tree.root, dict(tree.dims), dict(tree.static)).values()
    assert known["order"] == "(2, 0, 1)"


@pytest.mark.parametrize(("trans_b", "turned"), [(True, {"right"}), (False, set())])
def test_a_transposed_operand_is_turned(trans_b, turned):
    found = structures("gemm", {"trans_b": trans_b}, M=8, N=64, K=64)
    assert found["gemm"].transposed == found["gemm_core"].transposed == turned


def procs(bench, match, head="", **more):
    resolved = bench.resolve(f"{head}\nrules: [{{match: {match}, proc: CORE}}]", **more)
    return [
        i.path for i in resolved.instances if i.proc.value == "CORE" and "rule" in i.proc.reason
    ]


@pytest.mark.parametrize(
    ("match", "paths"),
    [
        ("{products: 1, level: 1}", ["product/block"]),
        ("{products: [1, 2], leaf: gemm}", [TILE]),
        ("{products: 2}", []),
        ("{order: [sum]}", ["product/block"]),
        ("{order: [rows, sum]}", ["product"]),
        ("{order: [columns]}", []),
        ("{between_products: reduction}", []),
        ("{between_products: nothing, order: [sum]}", ["product/block"]),
        ("{masked: true}", []),
        ("{window: none, order: [sum]}", ["product/block"]),
        ("{window: right}", []),
        ("{computed: none, order: [sum]}", ["product/block"]),
        ("{computed: right}", []),
        ("{transposed: none, order: [sum]}", ["product/block"]),
        ("{order: [sum], when: product.rows == 64 and product.columns == 64}", ["product/block"]),
        ("{level: entry, when: product.sum == 96 and product.rows == 128}", ["product"]),
        ("{order: [sum], when: second.rows > 0}", []),
        ("{order: [sum], when: not window.size > 0}", []),
        ("{order: [sum], when: loops.iterations == 2}", ["product/block"]),
        ("{within: {order: [sum]}, leaf: gemm}", [TILE]),
        ("{within: {order: [rows, sum], when: product.rows > 100}, leaf: gemm}", [TILE]),
        ("{within: {products: 3}, leaf: gemm}", []),
    ],
)
def test_what_a_match_by_structure_is_for(bench, match, paths):
    assert procs(bench, match) == paths


def test_a_condition_that_has_a_name_holds_where_it_is_named(bench):
    head = "conditions: {small: product.rows <= 64 and wide, wide: product.columns >= 32}"
    assert procs(bench, "{order: [sum], when: small}", head) == ["product/block"]
    assert procs(bench, "{order: [sum], when: not small}", head) == []


@pytest.mark.parametrize(("arch", "size"), [("avx2", 32), ("avx512", 64), ("neoverse-n1", 16)])
def test_a_condition_may_ask_for_the_bytes_of_a_register(bench, arch, size):
    machine = replace(septran.load_machine("cpu-x86"), arch=arch)
    match = f"{{order: [sum], when: register.bytes == {size}}}"
    assert procs(bench, match, machine=machine) == ["product/block"]
    assert procs(bench, match.replace("==", "!="), machine=machine) == []


@pytest.mark.parametrize("wanted", ["register.bytes > 0", "not register.bytes > 0"])
def test_a_machine_without_vector_registers_has_no_bytes_of_one(wanted):
    machine = septran.load_machine("dsa-sim")
    root = septran.produce_stages("gemm", shapes={"M": 8, "N": 8, "K": 8}).task_tree.root
    facts = replace(facts_of_task(root, {}, {}), machine=machine)
    assert not condition(Node(wanted, Location("here", 1))).holds(facts.values())


def test_conditions_that_name_each_other_are_refused(bench):
    with pytest.raises(ConditionError, match="name each other"):
        procs(bench, "{products: 1}", "conditions: {a: b, b: a}")


def test_a_misspelt_name_of_structure_is_refused_with_the_nearest(bench):
    with pytest.raises(ConditionError, match="no name of a task's structure") as caught:
        procs(bench, "{when: product.row < 3}")
    assert "product.rows" in caught.value.hint


def test_only_names_of_structure_have_a_dot(bench):
    with pytest.raises(ConditionError, match="structure"):
        procs(bench, "{when: A.shape < 3}")


def test_an_operand_that_there_is_not_is_refused(bench):
    with pytest.raises(WrongValueError):
        procs(bench, "{computed: middle}")


def test_memories_and_layouts_are_given_to_operands(bench):
    resolved = bench.resolve("""
        rules:
          - match: {level: entry}
            mems: {"*": DRAM}
          - match: {order: [sum]}
            proc: CORE
            mems: {product.right: L2, product.left: NONE}
            layouts: {product.right: panels(columns)}
    """)
    block = resolved.instance("product/block")
    assert (block.mems["B"].value, block.mems["A"].value) == ("L2", "NONE")
    assert block.settings.table(LAYOUTS)["B"].value == "panels(1)"


def test_a_tensor_s_own_name_goes_before_its_part(bench):
    resolved = bench.resolve("""
        rules:
          - match: {order: [sum]}
            proc: CORE
            mems: {product.right: L2, B: NONE}
    """)
    assert resolved.instance("product/block").mems["B"].value == "NONE"


def test_a_variant_is_chosen_by_how_it_computes(bench):
    rule = "rules: [{match: {products: 1}, variant: {order: []}}]"
    assert bench.resolve(rule).instance("product/block").variant == "block_whole"
    rule = "rules: [{match: {products: 1}, variant: {order: [sum]}}]"
    assert bench.resolve(rule).instance("product/block").variant == "block"
    rule = "rules: [{match: {products: 1}, variant: {order: [rows, rows]}}]"
    assert bench.resolve(rule).instance("product/block").variant == "block"  # there is none such


def test_a_variant_is_chosen_by_what_it_multiplies():
    shapes = {"M": 8, "N": 128, "K": 128}

    def operands(machine, text=""):
        mapping = f"extends: {machine}\nmachine: {machine}\n{text}"
        tree = septran.produce_stages("fp8_gemm", mapping, shapes=shapes).task_tree
        return {products_of(tree.root).products[0].dtype}

    assert operands("nvidia-h200") == {"float8_e4m3fn"}
    # The A100's tensor cores take none of eight bits.
    assert operands("nvidia-a100") == operands("dsa-sim") == {"bfloat16"}
    rule = "rules: [{match: {any_dtype: %s, products: 1}, variant: {multiplies: float32}}]"
    assert operands("dsa-sim", rule % "float8_e4m3fn") == {"float32"}
    assert operands("dsa-sim", rule % "float16") == {"bfloat16"}


def test_a_variant_is_chosen_by_which_operand_it_computes():
    rule = "rules: [{match: {products: 1, order: [sum]}, variant: {computed: left}}]"
    mapping = f"extends: dsa-sim\nmachine: dsa-sim\n{rule}"
    tree = septran.produce_stages("dequant_gemm", mapping).task_tree
    (first, *_) = products_of(tree.root).products
    assert first.operands["left"].computed
    assert not first.operands["right"].computed


def test_layouts_of_all_that_is_read(bench):
    resolved = bench.resolve("""
        rules:
          - match: {order: [sum]}
            proc: CORE
            mems: {"*": L2}
            layouts: {reads: padded(16), B: row}
    """)
    layouts = resolved.instance("product/block").settings.table(LAYOUTS)
    assert {name: setting.value for name, setting in layouts.items()} == {
        "A": "padded(16)", "B": "row",
    }  # fmt: skip


def test_tunables_are_chosen_by_structure(bench):
    values = "[{when: product.sum > 90, value: 32}, 8]"
    rule = f"rules: [{{match: {{order: [sum]}}, tunables: {{block_K: {values}}}}}]"
    found = dict(bench.resolve(rule).tree.task("product/block").tunables)
    assert found["block_K"] == 32


@task.define(leaf=True)
def copied(Y, X):
    task.copy(Y, X)


@task.define
def picky(Y: task.Tensor["M"], X: task.Tensor["M"]):
    size = task.tunable("size")
    task.require(size == 7, "only tiles of seven")
    for i in task.parallel_range(task.partition(Y, shape=(size,)).shape[0]):
        launches = [task.partition(x, shape=(size,))[i] for x in (Y, X)]
        if size != 7:
            raise ValueError("the logic refuses every other size")
        task.launch(copied, *launches)


def test_what_goes_wrong_in_a_draft_is_no_mistake(bench):
    """What is chosen before the body is traced does not know its structure; nothing is reported."""
    text = "rules: [{match: {products: 0}, tunables: {size: 9}}]\ntunables: {size: 7}"
    resolved = bench.resolve(text, logic=picky, shapes={"Y": (70,), "X": (70,)})
    assert dict(resolved.tree.root.tunables) == {"size": 7}


def test_the_mapping_is_printed_with_its_structure(bench):
    text = str(
        bench.mapping("""
        rules:
          - match: {products: 1, within: {between_products: reduction}}
            variant: {order: [columns, sum, rows]}
    """)
    )
    assert "match {products: [1], within: {between_products: reduction}}" in text
    assert "variant {order: [columns, sum, rows]}" in text


def test_only_rows_that_data_chooses_are_scattered():
    found = structures("embedding_backward", T=9, V=7, D=40)
    assert {name for name, s in found.items() if s.parts.scatters} >= {"embedding_backward"}
    assert not structures("embedding", T=9, V=7, D=40)["embedding"].parts.scatters


@pytest.mark.parametrize(
    "machine", ["dsa-sim", "npu-cube", "nvidia-h200", "nvidia-a100", "amd-mi300x"]
)
def test_what_is_scattered_into_stays_in_main_memory(machine):
    """All of its rows may be chosen, and they do not fit beside a processor."""
    shapes = {"T": 64, "V": 128_256, "D": 512}
    program = septran.produce_stages("embedding_backward", machine, shapes=shapes).tile_program
    near = [b for b in program.buffers if b.memory != "GLOBAL"]
    assert all(extent <= 512 for b in near for extent in b.shape)


def test_what_lies_across_its_source_is_turned():
    found = structures("transpose", B=2, M=40, N=70)
    assert found["transpose"].parts.turns
    for name, sizes in (("softmax", {"M": 8, "N": 70}), ("rope", {"S": 8, "H": 2, "D": 16})):
        assert not any(s.parts.turns for s in structures(name, **sizes).values()), name


@pytest.mark.parametrize(("heads", "order"), [
    (8, ("batch", "columns", "rows")),
    (2, ("batch", "rows", "columns")),
])  # fmt: skip
def test_cores_take_whole_heads_of_a_gradient_where_there_are_some_for_each(heads, order):
    """What attention's gradient makes of its scores is told by structure: elements between."""
    sizes = {"B": 1, "H": heads, "G": heads, "M": 130, "N": 600, "D": 16}
    stages = septran.produce_stages("attention_backward", "cpu-x86", shapes=sizes)
    parts = products_of(stages.task_tree.root)
    assert parts.between == "elements"
    assert parts.products[0].order == order
