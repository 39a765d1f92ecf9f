"""Machine files: what they mean, what is shipped, and every mistake at its place."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

import septran
from septran.errors import Errors, MachineError
from septran.machine import mistakes as m
from septran.machine.kinds import Report, check
from septran.machine.loader import load_machine, machine_names, mappings_root, read_machine
from septran.machine.positions import parse
from septran.machine.schema import MACHINE, machine_schema

SMALL = """
name: toy
backend: cpu
clock_mhz: 1000
processors:
  HOST: {}
  CORE: {count: 2, of: HOST}
memories:
  DRAM: {visible_to: HOST, bandwidth: 8B/cycle, latency: 100cycles}
  FAST: {visible_to: CORE, capacity: 64KiB, latency: 5ns}
engines:
  dma: {moves: [DRAM<->FAST], asynchronous: true, bandwidth: 4GB/s, latency: 50ns}
  all: {moves: all}
instructions:
  mac: {primitive: gemm, dtypes: [[float32, float32, float32]], operands: {C: FAST}}
aliases: {GLOBAL: DRAM, "*_unit": mac}
"""


def test_shipped_machines_are_these():
    names = (
        "amd-mi250",
        "amd-mi300x",
        "ascend-910b",
        "cpu-arm",
        "cpu-x86",
        "dsa-sim",
        "npu-cube",
        "nvidia-a100",
        "nvidia-h200",
        "opencl-generic",
        "tpu-v5e",
        "tpu-v6e",
    )
    assert machine_names() == names


@pytest.fixture(scope="module")
def schema():
    """What judges machine files by their schema; its import takes two seconds."""
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(machine_schema())
    return Draft202012Validator(machine_schema())


@pytest.mark.parametrize("name", machine_names())
def test_shipped_machines_load_and_fit_the_schema(name, schema):
    machine = load_machine(name)
    assert machine.name == name
    path = mappings_root() / "machines" / f"{name}.yaml"
    plain = parse(path.read_text(), str(path), MachineError).plain()
    schema.validate(plain)


@pytest.mark.parametrize("name", machine_names())
def test_shipped_machines_are_sound(name):
    machine = load_machine(name)
    assert machine.main_memory.visible_to == machine.host.name
    temporaries = {i.options.get("temporaries") for i in machine.instructions}
    # What an instruction computes into needs no copy that fills it.
    computed = {
        m for i in machine.instructions for m in i.operands.get("Y", i.operands.get("C", ()))
    }
    for memory in machine.memories[1:]:
        assert (
            memory.name in temporaries
            or memory.name in computed
            or machine.engines_for(machine.main_memory.name, memory.name)
            or any(machine.engines_for(other.name, memory.name) for other in machine.memories)
        )
    for primitive in ("gemm", "map"):
        assert any(i.primitive == primitive for i in machine.instructions)
    for word in ("GLOBAL", "SHARED", "REGISTER"):  # the seeds' words mean something everywhere
        machine.memory(word)
    machine.processor("BLOCK")
    assert machine.instruction("gemm_leaf_tensorcore").primitive == "gemm"


def test_figures_are_converted():
    machine = read_machine(SMALL, "toy.yaml")
    dram, fast = machine.memories
    assert (dram.bytes_per_second, dram.latency_ns) == (8e9, 100.0)
    assert (fast.capacity_bytes, fast.latency_ns) == (65536, 5.0)
    dma, every = machine.engines
    assert dma.moves == (("DRAM", "FAST"), ("FAST", "DRAM"))
    assert (dma.bytes_per_cycle, dma.latency_cycles, dma.completes_by) == (4.0, 50, "event")
    assert every.moves == (("DRAM", "FAST"), ("FAST", "DRAM"))
    assert every.completes_by == "return"


def test_aliases_may_have_stars_and_go_after_the_own_names():
    machine = read_machine(SMALL, "toy.yaml")
    assert machine.memory("GLOBAL").name == "DRAM"
    assert machine.instruction("tensor_unit").name == "mac"
    with pytest.raises(KeyError):
        machine.memory("nothing")


def test_the_host_decides_how_many_cores_there_are():
    cores = load_machine("cpu-x86").processor("CORE")
    assert cores.count == len(os.sched_getaffinity(0))


def test_a_machine_is_loaded_by_path_too(tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(SMALL)
    assert load_machine(path).name == load_machine(str(path)).name == "toy"
    path.write_text(SMALL.replace("toy", "toy2"))
    assert load_machine(path).name == "toy2"


def test_mappings_are_found_in_an_installed_package(tmp_path):
    package = tmp_path / "septran" / "machine"
    package.mkdir(parents=True)
    (tmp_path / "septran" / "_mappings").mkdir()
    source = Path(sys.modules[load_machine.__module__].__file__).read_text()
    function = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == "mappings_root"
    )
    code = ast.unparse(function)
    scope = {"Path": Path, "__file__": str(package / "loader.py")}
    exec(code, scope)
    assert scope["mappings_root"]() == tmp_path / "septran" / "_mappings"


CASES = {
    "unknown key": (SMALL.replace("backend", "bakend"), m.UnknownMachineKeyError, 3, "backend"),
    "unknown backend": (SMALL.replace("cpu", "gpu"), m.WrongMachineValueError, 3, None),
    "missing name": (SMALL.replace("name: toy\n", ""), m.MissingMachineKeyError, 2, None),
    "bad name": (SMALL.replace("toy", "'a b'"), m.WrongMachineValueError, 2, None),
    "unknown processor": (
        SMALL.replace("{visible_to: CORE", "{visible_to: KORE"), m.UnknownPartError, 10, "CORE",
    ),
    "unknown memory in an edge": (
        SMALL.replace("DRAM<->FAST", "DRAM<->FATS"), m.UnknownPartError, 12, "FAST",
    ),
    "unknown memory of an operand": (
        SMALL.replace("{C: FAST}", "{C: FATS}"), m.UnknownPartError, 15, "FAST",
    ),
    "a capacity without a unit": (
        SMALL.replace("64KiB", "65536"), m.WrongMachineValueError, 10, "units",
    ),
    "a unit that is none": (SMALL.replace("64KiB", "64kiB"), m.WrongMachineValueError, 10, "KiB"),
    "cycles without a clock": (
        SMALL.replace("clock_mhz: 1000\n", ""), m.MissingMachineKeyError, 8, None,
    ),
    "an alias for nothing": (
        SMALL.replace("GLOBAL: DRAM", "GLOBAL: RAM"), m.UnknownPartError, 16, "DRAM",
    ),
    "an alias of an own name": (
        SMALL.replace("GLOBAL: DRAM", "FAST: DRAM"), m.WrongMachineValueError, 16, None,
    ),
    "an edge that is none": (
        SMALL.replace("[DRAM<->FAST]", "[DRAM to FAST]"), m.WrongMachineValueError, 12, None,
    ),
    "levels out of order": (
        SMALL.replace("  HOST: {}\n  CORE: {count: 2, of: HOST}",
                      "  CORE: {count: 2, of: HOST}\n  HOST: {}"),
        Errors, 0, None,
    ),
    "dtypes of no kind": (
        SMALL.replace("[[float32,", "[[float31,"), m.WrongMachineValueError, 15, "float32",
    ),
    "a vendor name with a semicolon": (
        SMALL + "vendor: {mma: 'x; system(1)'}\n", m.WrongMachineValueError, 17, None,
    ),
    "a vendor path that climbs": (
        SMALL + "vendor: {header: ../../x.h}\n", m.WrongMachineValueError, 17, None,
    ),
    "a tag": (SMALL + "vendor: !tune {}\n", m.WrongMachineValueError, 17, None),
    "nothing at all": ("", m.MachineSyntaxError, 1, None),
    "a bandwidth of zero": (
        SMALL.replace("8B/cycle", "0B/cycle"), m.WrongMachineValueError, 9, "4.8TB/s",
    ),
    "a rate of zero": (SMALL.replace("4GB/s", "0.0GB/s"), m.WrongMachineValueError, 12, "4.8TB/s"),
    "a capacity of zero": (
        SMALL.replace("64KiB", "0KiB"), m.WrongMachineValueError, 10, "such as 227KiB",
    ),
    "a throughput of zero": (
        SMALL.replace("operands:", "throughput: 0 FMA/cycle, operands:"),
        m.WrongMachineValueError, 15, "1024 FMA/cycle",
    ),
    "a negative latency": (
        SMALL.replace("100cycles", "-100cycles"), m.WrongMachineValueError, 9, "units",
    ),
    "a clock of zero": (
        SMALL.replace("clock_mhz: 1000", "clock_mhz: 0"), m.WrongMachineValueError, 4, None,
    ),
    "no cores": (SMALL.replace("count: 2", "count: 0"), m.WrongMachineValueError, 7, None),
    "an alignment of 48": (
        SMALL.replace("64KiB", "64KiB, alignment: 48"), m.WrongMachineValueError, 10, "such as 32",
    ),
    "an alignment of zero": (
        SMALL.replace("moves: all", "moves: all, alignment: 0"),
        m.WrongMachineValueError, 13, "such as 1",
    ),
    "an alignment beyond all": (
        SMALL.replace("moves: all", "moves: all, alignment: 131072"),
        m.WrongMachineValueError, 13, "such as 65536",
    ),
    "no lanes": (
        SMALL.replace("operands:", "options: {lanes: 0}, operands:"),
        m.WrongMachineValueError, 15, None,
    ),
    "a word for cycles": (
        SMALL.replace("operands:", "options: {cycles: many}, operands:"),
        m.WrongMachineValueError, 15, None,
    ),
    "a word for flags": (SMALL + "vendor: {flags: many}", m.WrongMachineValueError, 17, None),
    "no processors": (
        SMALL.replace("processors:\n  HOST: {}\n  CORE: {count: 2, of: HOST}", "processors: {}"),
        Errors, 0, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_found_where_it_is(name):
    text, kind, line, hint = CASES[name]
    with pytest.raises(MachineError if kind is not Errors else Errors) as caught:
        read_machine(text, "toy.yaml")
    error = caught.value
    assert type(error) is kind, str(error)
    if kind is not Errors:
        assert error.where.line == line, str(error)
    if hint is not None:
        assert hint in str(error.hint)


ACROSS = {
    "a tile of one extent": ("operands:", "tile: [16], operands:", m.WrongMachineValueError),
    "multiples of four": (
        "operands:", "multiple_of: [1, 1, 1, 1], operands:", m.WrongMachineValueError,
    ),
    "two element types": (
        "[[float32, float32, float32]]", "[[float32, float32]]", m.WrongMachineValueError,
    ),
    "an operand of no gemm": ("{C: FAST}", "{D: FAST}", m.UnknownMachineKeyError),
    "a layout of no operand": (
        "operands:", "layouts: {X: row}, operands:", m.UnknownMachineKeyError,
    ),
    "a third operand of elements": (
        "{primitive: gemm, dtypes: [[float32, float32, float32]], operands: {C: FAST}}",
        "{primitive: map, operands: {Z: FAST}}", m.UnknownMachineKeyError,
    ),
    "temporaries of nowhere": (
        "operands:", "options: {temporaries: SLOW}, operands:", m.UnknownPartError,
    ),
    "less than a byte": ("64KiB", "0.0001KiB", m.WrongMachineValueError),
}  # fmt: skip


@pytest.mark.parametrize("name", ACROSS)
def test_what_no_schema_tells(name):
    old, new, kind = ACROSS[name]
    with pytest.raises(kind) as caught:
        read_machine(SMALL.replace(old, new), "toy.yaml")
    assert caught.value.where.line == (10 if name == "less than a byte" else 15)


def test_a_latency_may_be_zero():
    memory = read_machine(SMALL.replace("100cycles", "0cycles"), "toy.yaml").memories[0]
    assert memory.latency_ns == 0.0


def test_all_mistakes_are_reported_at_once():
    text = (
        SMALL.replace("backend: cpu", "bakend: cpu").replace("64KiB", "64").replace("gemm", "gem")
    )
    with pytest.raises(Errors) as caught:
        read_machine(text, "toy.yaml")
    assert [e.where.line for e in caught.value.errors] == [3, 10, 15]


@pytest.mark.parametrize("name", CASES)
def test_the_schema_and_the_reader_agree_on_the_form(name, schema):
    text, kind, _, _ = CASES[name]
    if kind is m.MachineSyntaxError:
        return
    node = parse(text, "toy.yaml", MachineError)
    report = Report(m.FAMILY)
    check(MACHINE, node, report)
    fits = schema.is_valid(node.plain())
    if name != "a tag":  # JSON has none
        assert fits == (not report.errors), report.errors


def test_an_unknown_machine_is_named_with_the_nearest():
    with pytest.raises(m.NoMachineError) as caught:
        load_machine("nvidia-h20")
    assert "nvidia-h200" in str(caught.value)


def test_every_class_has_a_code_of_its_own():
    classes = [c for c in vars(m).values() if isinstance(c, type) and issubclass(c, MachineError)]
    assert len({c.code for c in classes}) == len(classes)
    assert all(c.code.startswith("SEP2") for c in classes)


def test_reading_a_machine_needs_no_heavy_library():
    code = dedent("""
        import sys
        from septran.machine.loader import load_machine
        load_machine("cpu-x86")
        heavy = {"torch", "tvm", "pandas", "pydantic", "jsonschema"} & set(sys.modules)
        sys.exit(", ".join(heavy) if heavy else 0)
    """)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_throughput_can_depend_on_the_arch():
    text = """
name: wide
backend: cpu
arch: ARCH
processors: {HOST: {}}
memories: {DRAM: {visible_to: HOST}}
instructions:
  fma: {primitive: gemm, throughput: {avx512: 32 FMA/cycle, avx2: 16 FMA/cycle}}
"""
    found = {}
    for arch in ("avx512", "avx2", "other"):
        (fma,) = read_machine(text.replace("ARCH", arch), "wide.yaml").instructions
        found[arch] = fma.throughput
    assert found == {"avx512": 32, "avx2": 16, "other": 32}
    (native,) = read_machine(text.replace("ARCH", "native"), "wide.yaml").instructions
    assert native.throughput in (16, 32)


def test_the_former_name_of_display_name_still_works_and_is_told(tmp_path):
    text = (mappings_root() / "machines" / "npu-cube.yaml").read_text()
    former_text = text.replace("display_name:", "called:")
    machine = read_machine(former_text, "npu-cube.yaml")
    (former,) = machine.former_keys
    assert machine == read_machine(text, "npu-cube.yaml")
    assert machine.processors[1].display_name == "AI core"
    place = f"npu-cube.yaml:{former_text[: former_text.index('called:')].count(chr(10)) + 1}:1"
    assert (former.message, str(former.where)) == ("`called` is called `display_name` now", place)
    resolved = septran.produce_stages(
        "softmax", "npu-cube", machine=machine, shapes={"M": 2, "N": 2}
    ).mapping
    assert [(d.about, d.hint) for d in resolved.decisions if d.message == former.message] == [
        ("machine", "write display_name; a later version will not know called")
    ]
    file = tmp_path / "npu-cube.yaml"
    file.write_text(former_text)
    told = subprocess.run(
        ["septran", "lint", str(file)], capture_output=True, text=True, check=True
    )
    assert f"{place}: {former.message}" in told.stdout.replace(f"{tmp_path}/", "")


def test_no_shipped_machine_has_a_former_key():
    assert not any(load_machine(name).former_keys for name in machine_names())


def test_a_file_takes_what_it_does_not_say_from_the_machine_that_it_extends(schema):
    text = """
        name: mine
        extends: cpu-x86
        clock_mhz: 4000
        memories: {L2: {capacity: 2MiB}}
        instructions: {vector: {costs: {exp: 16}}}
    """
    shipped, mine = load_machine("cpu-x86"), read_machine(dedent(text), "mine.yaml")
    assert (mine.name, mine.backend, mine.clock_mhz) == ("mine", "cpu", 4000)
    assert [m.name for m in mine.memories] == [m.name for m in shipped.memories]
    assert mine.memory("L2").capacity_bytes == 2 << 20
    assert mine.memory("L1").capacity_bytes == shipped.memory("L1").capacity_bytes
    assert mine.instruction("vector").costs == shipped.instruction("vector").costs | {"exp": 16}
    assert mine.instruction("vector").primitive == "map"
    schema.validate(yaml.safe_load(dedent(text)))


def test_only_a_shipped_machine_is_extended():
    with pytest.raises(m.NoMachineError, match=r"no machine 'cpu-x87' comes with SepTran") as found:
        read_machine("name: mine\nextends: cpu-x87\n", "mine.yaml")
    assert (found.value.where.line, found.value.where.column) == (2, 10)
    assert "cpu-x86" in str(found.value.hint)


def test_mistakes_of_what_extends_are_at_its_own_place():
    text = "name: mine\nextends: cpu-x86\nmemories:\n  L2: {capacity: much}\n"
    with pytest.raises(m.WrongMachineValueError) as found:
        read_machine(text, "mine.yaml")
    assert (found.value.where.file, found.value.where.line) == ("mine.yaml", 4)


def test_times_in_cycles_need_the_clock_wherever_they_stand():
    for line in ("  HOST: {launch: 9cycles}", "  HOST: {}\n  CORE: {of: HOST, launch: 9cycles}"):
        text = (
            f"name: a\nbackend: cpu\nprocessors:\n{line}\nmemories:\n  DRAM: {{visible_to: HOST}}\n"
        )
        with pytest.raises(m.MissingMachineKeyError, match="needs clock_mhz"):
            read_machine(text, "a.yaml")
    text = (
        "name: a\nbackend: cpu\nclock_mhz: 1000\nprocessors:\n  HOST: {launch: 9cycles}\n"
        "memories:\n  DRAM: {visible_to: HOST, write_bandwidth: 2B/cycle}\n"
    )
    made = read_machine(text, "a.yaml")
    assert made.host.launch_ns == 9
    assert made.main_memory.write_bytes_per_second == 2e9


def test_native_peaks_are_those_that_native_is_taken_for(monkeypatch):
    peaks = {}
    for width in ("avx2", "avx512"):
        monkeypatch.setenv("SEPTRAN_NATIVE", width)
        peaks[width] = load_machine("cpu-x86").instruction("fma_microkernel").throughput
    assert peaks == {"avx2": 16, "avx512": 32}


def test_a_folder_of_measured_files_comes_before_what_is_shipped(monkeypatch, tmp_path):
    text = "name: cpu-x86\nextends: cpu-x86\nclock_mhz: 1234\n"
    (tmp_path / "cpu-x86.yaml").write_text(text, encoding="utf-8")
    shipped = load_machine("cpu-x86").clock_mhz
    monkeypatch.setenv("SEPTRAN_MACHINES", str(tmp_path))
    assert load_machine("cpu-x86").clock_mhz == 1234 != shipped
    assert load_machine("cpu-x86").instructions  # from the shipped one, which it extends
    assert load_machine("cpu-arm").clock_mhz == 2600  # of which the folder has no file
