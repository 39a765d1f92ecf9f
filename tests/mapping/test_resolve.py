"""Resolution: explicit instances, inheritance, placement, and what it refuses."""

from __future__ import annotations

import pytest

from septran.errors import Errors, MappingError
from septran.mapping import mistakes as m
from septran.mapping.keys import PIPELINE

BLOCK, TILE, FILL = "product/block", "product/block/tile", "product/block/fill"

EXPLICIT = """
    machine: nvidia-h200
    entrypoint: host
    task_mappings:
      host:
        task_name: product
        proc: HOST
        mems: {C: GLOBAL, A: GLOBAL, B: GLOBAL}
        calls: {block: gpu}
      gpu:
        task_name: block
        proc: BLOCK
        mems: {C: REGISTER, A: SHARED, B: SHARED}
        pipeline: 4
        warpspecialize: true
        leaf_task_bindings: {tile: [wgmma, mma_sync, simt]}
    """


def values(table):
    return {key: setting.value for key, setting in table.items()}


def memories(instance):
    return {name: place.memory for name, place in instance.mems.items()}


def test_an_explicit_mapping(bench):
    resolved = bench.resolve(EXPLICIT, dtype={"C": "float32", "A": "float16", "B": "float16"})
    gpu = resolved.instance(BLOCK)
    assert (gpu.name, gpu.proc.value, gpu.settings.get(PIPELINE).value) == ("gpu", "BLOCK", 4)
    assert memories(gpu) == {"C": "REGISTER", "A": "SHARED", "B": "SHARED"}
    tile = resolved.instance(TILE)
    assert (tile.proc.value, tile.proc.reason) == ("BLOCK", "as its caller")
    assert values(tile.mems) == {"C": "NONE", "A": "NONE", "B": "NONE"}
    assert memories(tile) == {"C": "REGISTER", "A": "SHARED", "B": "SHARED"}
    assert values(tile.bindings) == {"gemm": "wgmma"}
    assert tile.bindings["gemm"].where.line == 16
    assert values(resolved.instance(FILL).bindings) == {"fill": "fragment"}
    assert resolved.decisions == ()


def test_every_setting_knows_its_line_or_its_default(bench):
    for instance in bench.resolve(EXPLICIT).instances:
        for table in (instance.mems, instance.bindings, instance.tunables):
            for setting in table.values():
                assert setting.reason
                assert setting.where or "default" in setting.reason or "caller" in setting.reason


def test_a_mapping_without_a_machine_runs_on_the_cpu_by_its_aliases(bench):
    text = EXPLICIT.replace("machine: nvidia-h200", "description: in the seeds' words").replace(
        "[wgmma, mma_sync, simt]", "gemm_leaf_tensorcore"
    )
    resolved = bench.resolve(text)
    assert resolved.machine.name == "cpu-x86"
    block = resolved.instance(BLOCK)
    assert (block.proc.value, block.proc.reason) == ("CORE", "instance gpu (BLOCK)")
    assert values(block.mems) == {"C": "L1", "A": "L2", "B": "L2"}
    assert values(resolved.instance(TILE).bindings) == {"gemm": "fma_microkernel"}
    assert resolved.decisions[0].message == "the mapping names no machine, so cpu-x86 is taken"


def test_a_machine_that_is_asked_for_goes_before_the_files(bench):
    text = EXPLICIT.replace("wgmma, mma_sync, simt", "gemm_tensorcore")
    resolved = bench.resolve(text, "dsa-sim")
    assert resolved.instance(BLOCK).mems["C"].value == "ACC"
    message = "the mapping is for nvidia-h200, and taken for dsa-sim as asked"
    assert resolved.decisions[0].message == message


def test_names_that_the_asked_machine_lacks_are_errors(bench):
    with pytest.raises(Errors) as caught:
        bench.resolve(EXPLICIT, "dsa-sim")
    assert [type(e) for e in caught.value.errors] == [m.UnknownNameError] * 3


def test_an_instance_is_found_by_its_task_without_calls(bench):
    resolved = bench.resolve(EXPLICIT.replace("calls: {block: gpu}", "pipeline: 1"))
    assert resolved.instance(BLOCK).name == "gpu"


def test_an_instance_names_the_variant(bench):
    resolved = bench.resolve(EXPLICIT.replace("task_name: block", "task_name: block_whole"))
    assert resolved.instance(BLOCK).variant == "block_whole"


def test_instances_lie_over_rules(bench):
    resolved = bench.resolve("""
        task_mappings:
          mine: {task_name: block, mems: {A: L1}}
        rules:
          - {match: {loops: parallel}, proc: CORE, mems: {reads: L2}}
        """)
    block = resolved.instance(BLOCK)
    assert (block.name, block.proc.reason) == ("mine", "rule 1")
    assert values(block.mems) == {"C": "NONE", "A": "L1", "B": "L2"}


def test_unmapped_tasks_run_where_their_caller_does_and_say_so(bench):
    resolved = bench.resolve("""
        entrypoint: host
        task_mappings: {host: {task_name: product}}
        """)
    assert resolved.instance(BLOCK).proc.value == "HOST"
    messages = [d.message for d in resolved.decisions]
    assert "block is not mapped, so it runs on HOST as its caller does" in messages


def refused(bench, kind, text, **options):
    with pytest.raises(MappingError) as caught:
        bench.resolve(text, **options)
    assert type(caught.value) is kind, str(caught.value)
    assert caught.value.where is not None
    return caught.value


def change(old, new):
    assert old in EXPLICIT
    return EXPLICIT.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "kind", "line", "hint"),
    [
        ("task_name: product", "task_name: produkt", m.WrongEntryError, 6, "product"),
        ("{block: gpu}", "{blok: gpu}", m.NeverLaunchedError, 9, "block"),
        ("{block: gpu}", "{block: host}", m.WrongEntryError, 9, None),
        ("{tile: [", "{tille: [", m.NeverLaunchedError, 16, "tile"),
        ("{C: REGISTER, A", "{D: REGISTER, A", m.UnknownTensorError, 13, None),
        ("{C: REGISTER, A", "{accumulator: REGISTER, A", m.UnknownTensorError, 13, None),
        ("mems: {C: GLOBAL, A: GLOBAL", "mems: {C: GLOBAL, A: SHARED", m.NotVisibleError, 8,
         "HOST sees GLOBAL"),
        ("[wgmma, mma_sync, simt]", "fragment", m.NoBindingError, 16, "wgmma, wgmma_int8,"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_logic_is_refused(bench, old, new, kind, line, hint):
    error = refused(bench, kind, change(old, new))
    assert error.where.line == line, str(error)
    if hint:
        assert hint in str(error.hint)


def test_levels_nest(bench):
    error = refused(
        bench,
        m.NestingError,
        """
        rules:
          - {match: {level: entry}, proc: CORE}
          - {match: {level: 1}, proc: HOST}
        """,
    )
    assert "block would run on HOST, outside of CORE" in error.message
    assert (error.where.line, error.where.column) == (4, 31)


def test_two_instances_of_one_task_need_calls(bench):
    text = EXPLICIT.replace("calls: {block: gpu}", "pipeline: 1") + (
        "  other: {task_name: block, proc: BLOCK}\n"
    )
    error = refused(bench, m.AmbiguousInstanceError, text.replace("\n    ", "\n"))
    assert "calls: {block: gpu}" in error.hint


def test_why_each_candidate_refused_is_listed(bench):
    error = refused(
        bench,
        m.NoBindingError,
        change("[wgmma, mma_sync, simt]", "[wgmma, mma_sync]"),
        dtype="float64",
    )
    assert "wgmma: operands are float64, float64, float64" in error.message
    assert "mma_sync: operands are" in error.message
    assert error.related[0][0] == "the primitive is used here"


def test_extents_that_an_instruction_cannot_take(bench):
    resolved = bench.resolve(
        EXPLICIT, dtype={"C": "float32", "A": "float16", "B": "float16"}, block_M=32
    )
    assert values(resolved.instance(TILE).bindings) == {"gemm": "mma_sync"}
    (decision,) = resolved.decisions
    assert decision.kind == "missed"
    assert "wgmma: m is 32, not a multiple of 64" in decision.message


def test_operands_must_be_where_the_instruction_takes_them_from(bench):
    text = (
        change("[wgmma, mma_sync, simt]", "wgmma")
        + """
      tile: {task_name: tile, mems: {C: SHARED}}
    """
    )
    error = refused(
        bench, m.NoBindingError, text, dtype={"C": "float32", "A": "float16", "B": "float16"}
    )
    assert "wgmma: C is in SHARED, and it takes C from REGISTER" in error.message


def test_what_nobody_placed_goes_where_the_instruction_takes_it_from(bench):
    text = change("{C: REGISTER, A: SHARED, B: SHARED}", "{C: SHARED, A: SHARED, B: SHARED}")
    text = text.replace("[wgmma, mma_sync, simt]", "wgmma")
    resolved = bench.resolve(text, dtype={"C": "float32", "A": "float16", "B": "float16"})
    tile = resolved.instance(TILE)
    assert values(tile.mems) == {"C": "REGISTER", "A": "NONE", "B": "NONE"}
    assert tile.mems["C"].reason == "where wgmma takes it from"
    assert tile.mems["C"].where == tile.bindings["gemm"].where


def test_capacity_is_summed_buffer_by_buffer(bench, golden):
    text = """
        rules:
          - match: {loops: parallel}
            proc: CORE
            mems: {"*": SPM, temporaries: SPM}
        """
    error = refused(
        bench, m.MappedCapacityError, text, machine="dsa-sim", logic=bench.scaled,
        shapes={"Y": (256, 512), "X": (256, 512)}, block_M=128,
    )  # fmt: skip
    golden.check(error.message, "capacity")


def test_stages_of_a_pipeline_count(bench):
    text = """
        rules:
          - {match: {level: entry}, pipeline: 4}
          - {match: {loops: parallel}, proc: CORE, mems: {reads: SPM, temporaries: SPM}}
          - {match: {leaf: elementwise}, mems: {writes: SPM}}
        """
    bench.resolve(text, "dsa-sim", logic=bench.scaled, block_M=16)
    with pytest.raises(m.MappedCapacityError, match=r"16 x 1024 float32 x 4 stages"):
        bench.resolve(text, "dsa-sim", logic=bench.scaled,
                      shapes={"Y": (64, 1024), "X": (64, 1024)}, block_M=16)  # fmt: skip


def test_a_panel_that_a_gemm_sums_along_may_be_larger_than_its_memory(bench):
    text = """
        rules:
          - {match: {loops: parallel}, proc: CORE, mems: {reads: SPM, accumulators: ACC}}
        """
    shapes = {"C": (64, 64), "A": (64, 4096), "B": (4096, 64)}
    resolved = bench.resolve(text, "dsa-sim", shapes=shapes)
    assert resolved.instance(BLOCK).mems["A"].value == "SPM"


def test_caches_spill_with_a_remark(bench):
    text = "rules: [{match: {level: 1}, proc: CORE, mems: {A: L1}}]"
    resolved = bench.resolve(text, shapes={"C": (128, 8), "A": (128, 512), "B": (512, 8)})
    (decision,) = [d for d in resolved.decisions if d.about == "L1"]
    assert decision.kind == "missed"
    assert "it will spill" in decision.message


def test_all_mistakes_of_a_logic_and_a_mapping_are_reported_at_once(bench):
    text = change("{block: gpu}", "{block: gpu, blok: gpu}").replace(
        "{C: REGISTER, A", "{D: REGISTER, A"
    )
    with pytest.raises(Errors) as caught:
        bench.resolve(text)
    kinds = [type(e) for e in caught.value.errors]
    assert kinds == [m.NeverLaunchedError, m.UnknownTensorError]  # and not what follows from them
