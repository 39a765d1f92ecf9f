"""The command line: what each command says, its JSON, its exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from septran.cli import app
from septran.commands.arguments import value_of
from septran.machine.loader import mappings_root
from tests.tiers import slow_where
from tests.twice import LOGIC

ROOT = Path(__file__).parents[2]
SMALL = ("-s", "M=65", "-s", "N=33", "-s", "K=17")


@pytest.fixture(scope="module", autouse=True)
def cache_of_this_module(tmp_path_factory):
    """A kernel that several commands run is compiled once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEPTRAN_CACHE_DIR", str(tmp_path_factory.mktemp("cache") / "cache"))
        yield


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def logic(tmp_path):
    path = tmp_path / "twice.py"
    path.write_text(LOGIC, encoding="utf-8")
    return path


def septran(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


def names():
    return list(get_command(app).commands)


@pytest.mark.parametrize("name", [*names(), "cache info", "cache clear"])
def test_help_shows_an_example(name):
    text = septran(*name.split(), "--help").output
    assert "Example" in text
    assert f"  septran {name}" in text


def test_help_lists_every_command():
    text = septran("--help").output
    assert all(f" {name} " in text for name in names())
    assert text == septran("-h").output


def test_version_is_printed():
    import septran as package

    assert septran("--version").output == f"septran {package.__version__}\n"


def test_an_unknown_command_is_a_usage_error():
    assert "No such command" in septran("compil", code=2).output


def test_run_checks_and_measures_beside_torch():
    text = septran("run", "gemm", "--on", "cpu-x86", *SMALL).output
    assert text.startswith("gemm on cpu-x86: M = 65, N = 33, K = 17, float32; compiled in ")
    assert "C: right, error at most" in text
    assert "GFLOP/s" in text
    assert "beside torch.mm of torch" in text


def test_run_notes_what_the_caller_asks_for_in_vain_not_what_a_shipped_mapping_does(tmp_path):
    small = ("-s", "M=16", "-s", "N=16")
    assert "no effect" not in septran("run", "softmax", "--on", "dsa-sim", *small).output
    mine = tmp_path / "mine.mapping.yaml"
    rule = "  - {match: {task: softmax_rows}, pipeline: 3}"
    mine.write_text(f"extends: dsa-sim\nrules:\n{rule}\n")
    lines = septran("run", "softmax", "-m", mine, *small).output.splitlines()
    (note,) = [line for line in lines if "no effect" in line]
    assert note.startswith("  note: `pipeline` has no effect: ")
    assert note.endswith(f"mine.mapping.yaml:3:{rule.index('3') + 1}]")


def test_run_says_what_each_of_its_times_is_of():
    text = septran("run", "gemm", "--on", "cpu-x86", *SMALL).output
    assert re.search(r"^  measured alone, call after call: .* a call ", text, re.M)
    assert re.search(r"^  measured beside torch.mm of torch .* its speed", text, re.M)
    assert "times to compare with each other, not with those alone" in text
    text = septran("run", "gemm", "--on", "cpu-x86", *SMALL, "--no-torch").output
    assert re.search(r"^  measured: .* a call ", text, re.M)
    assert "alone" not in text
    text = septran("run", "gemm", "--on", "dsa-sim", *SMALL).output
    assert re.search(r"^  simulated: [\d,]+ cycles", text, re.M)


def test_run_faster_than_the_machine_file_says_how_to_measure_the_host(tmp_path):
    slow = tmp_path / "slow.yaml"
    slow.write_text("name: cpu-x86\nextends: cpu-x86\nclock_mhz: 1\n", encoding="utf-8")
    text = septran("run", "gemm", "--on", slow, *SMALL, "--no-torch").output
    assert "septran machines --measure -o here.yaml" in text
    fast = tmp_path / "fast.yaml"
    fast.write_text("name: cpu-x86\nextends: cpu-x86\nclock_mhz: 90000\n", encoding="utf-8")
    assert "--measure" not in septran("run", "gemm", "--on", fast, *SMALL, "--no-torch").output


def test_run_prints_json():
    data = json.loads(septran("run", "gemm", *SMALL, "--json", "--dtype", "float64").output)
    assert data["right"] is True
    assert data["dims"] == {"M": 65, "N": 33, "K": 17}
    assert set(data["dtypes"].values()) == {"float64"}
    assert data["profile"]["flops"] == 2 * 65 * 33 * 17
    assert data["torch"]["ratio"] == pytest.approx(
        data["torch"]["theirs_s"] / data["torch"]["ours_s"], rel=10
    )


@pytest.mark.one_in(3, first=1)
@pytest.mark.parametrize(
    ("operator", "sizes", "function"),
    slow_where(
        lambda case: case[0] in ("attention", "conv2d"),
        [
            ("softmax", "M=33 N=65", "torch.softmax"),
            ("batched_gemm", "S=3 M=33 N=17 K=9", "torch.bmm"),
            ("gemm_bias_act", "M=33 N=17 K=9", "torch.addmm, relu"),
            ("attention", "B=1 H=2 G=2 M=33 N=40 D=16", "torch scaled_dot_product_attention"),
            ("conv2d", "B=2 C=3 H=9 W=8 O=4 R=3 S=2", "torch conv2d"),
        ],
    ),
)
def test_each_operator_is_measured_beside_its_own_function(operator, sizes, function):
    shapes = [part for size in sizes.split() for part in ("-s", size)]
    data = json.loads(septran("run", operator, *shapes, "--json").output)
    assert data["right"] is True
    assert data["torch"]["function"] == function


def test_torch_is_not_measured_where_it_has_another_meaning():
    data = json.loads(septran("run", "gemm", *SMALL, "--dtype", "int8", "--json").output)
    assert data["right"] is True
    assert data["dtypes"] == {"C": "int32", "A": "int8", "B": "int8"}
    assert data["torch"] is None
    assert (
        json.loads(septran("run", "gemm", *SMALL, "--no-torch", "--json").output)["torch"] is None
    )


def test_tunables_given_go_before_the_mapping():
    text = septran("explain", "gemm", *SMALL, "-t", "block_M=16", "--stage", "task_tree").output
    assert "block_M = 16" in text


def test_settings_without_effect_are_said():
    text = septran("run", "gemm", *SMALL, "-t", "blok_M=16", "--no-torch").output
    assert "tunable blok_M has no effect" in text
    assert "did you mean 'block_M'?" in text


def test_static_flags_are_passed():
    sizes = ("-s", "A=17x65", "-s", "B=17x33")
    septran("run", "gemm", "--static", "trans_a=true", *sizes, "--no-torch")


def test_a_logic_file_is_run_with_shapes(logic):
    assert "Y: right" in septran("run", logic, "-s", "X=33x7").output
    assert "Y: right" in septran("run", logic, "-s", "M=33", "-s", "N=7").output


def test_a_logic_file_without_sizes_says_what_to_give(logic):
    assert "-s A=512x256" in septran("run", logic, code=2).output


@pytest.mark.slow
def test_run_with_one_thread():
    code = "from septran.cli import main; main()"
    result = command("-c", code, "run", "gemm", *SMALL, "--threads", "1")
    assert result.returncode == 0, result.stderr
    assert "more than the" in septran("run", "gemm", "--threads", "100000", code=2).output


@pytest.mark.parametrize("machine", ["dsa-sim", "nvidia-h200", "nvidia-a100", "amd-mi300x"])
def test_machines_that_are_not_here_are_interpreted(machine):
    text = septran("run", "gemm", "--on", machine, "--interpret", *SMALL).output
    assert text.count("C: right") == 3
    data = json.loads(
        septran("run", "gemm", "--on", machine, "--interpret", "--json", *SMALL).output
    )
    assert data["right"] is True
    assert set(data["interpreted"]) == {"early", "late", "0"}


def test_a_wrong_result_exits_with_1(monkeypatch):
    from septran.runtime.checks import Check

    monkeypatch.setattr(Check, "right", property(lambda self: False))
    septran("run", "gemm", *SMALL, code=1)


@pytest.mark.usefixtures("without_hip")
def test_a_machine_without_a_code_generator_is_a_mistake():
    result = septran("run", "gemm", "--on", "amd-mi300x", code=1)
    assert "SEP501" in result.stderr
    assert "inspected and interpreted" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "gem"], "did you mean 'gemm'?"),
        (["run", "gemm", "--on", "cpu-x87"], "did you mean 'cpu-x86'?"),
        (["run", "gemm", "-s", "Q=3"], "no tensor or dimension 'Q'"),
        (["run", "gemm", "--dtype", "flot32"], "did you mean 'float32'?"),
        (["explain", "missing.py", "-s", "A=3x4"], "no logic file 'missing.py'"),
        (["explain", "gemm", "--mapping", "missing.mapping.yaml"], "missing.mapping.yaml"),
        (["compare", "gemm", "cpu-x86", "dsa-sum"], "did you mean 'dsa-sim'?"),
        (["machines", "dsa"], "dsa-sim"),
        (["ops", "softmx"], "did you mean 'softmax'?"),
        (["lint", "missing.yaml"], "missing.yaml"),
    ],
)
def test_mistakes_are_printed_without_a_traceback(arguments, said):
    result = septran(*arguments, code=1)
    assert said in result.stderr
    assert "[SEP" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "gemm", "-s", "M"],
        ["run", "gemm", "-s", "M=many"],
        ["run", "gemm", "--dtype", "float16", "--dtype", "float32"],
        ["run"],
        ["explain", "gemm", "--format", "report", "--stage", "source"],
        ["explain", "gemm", "--stage", "sourse"],
        ["explain", "gemm", "--stage", "source", "--part", "assembly"],
        ["compare", "gemm", "cpu-x86"],
        ["lint", "gemm.py"],
        ["schema", "logic"],
    ],
)
def test_a_wrong_command_line_exits_with_2(arguments):
    assert "Traceback" not in septran(*arguments, code=2).output


def test_explain_shows_all_five_stages_with_reasons():
    asked = ("explain", "gemm", "--on", "cpu-x86", *SMALL, "-s", "M=1000")
    assert "4. TensorIR" not in septran(*asked).output
    text = septran(*asked, "--format", "full").output
    titles = ["1. Task tree", "2. Resolved mapping", "3. Tile program", "4. TensorIR", "5. "]
    places = [text.index(title) for title in titles]
    assert places == sorted(places)
    copies = text.split("Copies and waits")[1].split("Data movement")[0]
    count = copies.count("by load_store")
    assert count > 0
    for word in ("because  ", "logic    septran/operators/gemm.py:", "mapping  mappings/"):
        assert copies.count(word) == count


@pytest.mark.parametrize("stage", ["task_tree", "mapping", "tile_program", "tensor_ir", "source"])
def test_explain_shows_one_stage(stage):
    text = septran("explain", "gemm", *SMALL, "--stage", stage).output
    assert text.strip()
    assert "1. Task tree" not in text


def test_explain_writes_a_page_that_refers_to_nothing_outside(tmp_path):
    page = tmp_path / "gemm.html"
    result = septran("explain", "gemm", *SMALL, "--format", "html", "-o", page)
    assert f"wrote {page}" in result.stderr
    html = page.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>") or html.startswith("<!doctype html>")
    for outside in ('src="http', "src='http", 'href="http', "@import", "url(http"):
        assert outside not in html


def test_explain_reports_within_its_bounds():
    text = septran("explain", "gemm", "--on", "dsa-sim", "--format", "report").output
    assert "What limits it" in text
    assert len(text.splitlines()) <= 120


def test_explain_prints_json_and_json_alone():
    data = json.loads(septran("explain", "gemm", *SMALL, "--json").output)
    assert set(data["stages"]) == {"task_tree", "mapping", "tile_program", "tensor_ir", "source"}
    assert data == json.loads(septran("explain", "gemm", *SMALL, "-f", "json").output)


def test_explain_writes_the_mapping_out_and_it_means_the_same(tmp_path):
    written = tmp_path / "written.mapping.yaml"
    septran("explain", "gemm", *SMALL, "--format", "yaml", "-o", written)
    septran("lint", written)
    stages = ("explain", "gemm", *SMALL, "--stage", "tensor_ir")
    first = septran(*stages).output
    second = septran(*stages, "--mapping", written).output
    assert _code(first) == _code(second)


def _code(script):
    """Without the places of lines, which differ."""
    return [
        line for line in script.splitlines() if '{"origin": ' not in line and "# from" not in line
    ]


def test_explain_shows_each_pass():
    text = septran("explain", "gemm", "--on", "dsa-sim", *SMALL, "--passes").output
    heads = ["1. instantiate: ", "pipeline_loops: ", "insert_sync: ", "plan_memory: "]
    places = [text.index(head) for head in heads]
    assert places == sorted(places)


def test_a_file_that_cannot_be_written_is_a_usage_error(tmp_path):
    septran("schema", "mapping", "-o", tmp_path / "no" / "such" / "folder.json", code=2)


def test_compare_shows_what_differs():
    text = septran("compare", "gemm", "cpu-x86", "dsa-sim", *SMALL).output
    assert "predicted time" in text
    assert "no differences" not in text.split("Mappings")[1].split("Task tree")[0]
    data = json.loads(septran("compare", "gemm", "cpu-x86", "dsa-sim", *SMALL, "--json").output)
    assert data["mappings"] == ["cpu-x86", "dsa-sim"]


def test_compare_of_equal_mappings_finds_nothing():
    data = json.loads(septran("compare", "gemm", "cpu-x86", "cpu-x86", *SMALL, "--json").output)
    assert data["differences"] == []


def test_lint_accepts_all_shipped_files():
    files = sorted((ROOT / "mappings").rglob("*.yaml"))
    assert len(files) >= 10
    text = septran("lint", *files).output
    lines = [line for line in text.splitlines() if not line.startswith("  note: ")]
    assert len(lines) == len(files)
    assert all(": a right " in line for line in lines)


def test_lint_says_that_the_header_of_a_foreign_machine_is_code(tmp_path):
    shipped = mappings_root() / "machines" / "dsa-sim.yaml"
    text = shipped.read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "dsa-sim.h").write_text("int one(void);\n", encoding="utf-8")
    assert "the header dsa-sim.h beside it is C code" in " ".join(
        septran("lint", tmp_path / "mine.yaml").output.split()
    )
    assert "C code" not in septran("lint", shipped).output


def test_lint_reports_every_mistake_with_its_place(tmp_path):
    path = tmp_path / "bad.mapping.yaml"
    path.write_text(
        "machine: cpu-x86\nrules:\n  - match: {level: entri}\n    proc: HOSTT\n    mem: {}\n",
        encoding="utf-8",
    )
    result = septran("lint", path, code=1)
    for place in (":3:20: ", ":4:11: ", ":5:5: "):
        assert place in result.stderr
    assert "3 mistakes." in result.stderr
    ((found),) = json.loads(septran("lint", path, "--json", code=1).output)
    assert [m["line"] for m in found["mistakes"]] == [3, 4, 5]
    assert all(m["code"].startswith("SEP3") for m in found["mistakes"])


def test_lint_never_runs_logic(tmp_path):
    trace = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(trace)!r}, 'w')", encoding="utf-8")
    path = tmp_path / "evil.mapping.yaml"
    path.write_text("entrypoint: x\ntask_mappings: {x: {task_name: evil}}\n", encoding="utf-8")
    CliRunner().invoke(app, ["lint", str(path), str(path)])
    assert not trace.exists()
    code = (
        "import sys; from septran.cli import app\n"
        f"try: app(['lint', {str(path)!r}])\nexcept SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith('septran.operators.') or m == 'tvm'])"
    )
    assert command("-c", code).stdout.splitlines()[-1] == "[]"


def test_lint_sizes_what_is_to_be_searched(tmp_path):
    path = tmp_path / "searched.mapping.yaml"
    path.write_text(
        "rules: [{match: {level: entry}, proc: HOST}]\n"
        "tunables: {block_M: !tune {type: choice, values: [32, 64, 96]}}\n",
        encoding="utf-8",
    )
    assert "3 combinations to search" in septran("lint", path).output


def test_lint_counts_the_cases_of_a_dispatch_file(tmp_path):
    path = tmp_path / "gemm.dispatch.yaml"
    path.write_text("dispatch: [{when: M < 4, mapping: cpu-x86}]\notherwise: cpu-x86\n")
    assert "a right dispatch file: for cpu-x86, 2 cases" in " ".join(
        septran("lint", path).output.split()
    )
    assert "dispatch" in json.loads(septran("schema", "dispatch").output)["required"]


@pytest.mark.parametrize("kind", ["mapping", "machine"])
def test_schemas_accept_the_shipped_files(kind):
    import jsonschema
    import yaml

    schema = json.loads(septran("schema", kind).output)
    jsonschema.Draft202012Validator.check_schema(schema)
    reader = jsonschema.Draft202012Validator(schema)  # `validate` would check the schema each time
    folder = ROOT / "mappings" / ("machines" if kind == "machine" else "")
    for path in folder.glob("*.yaml"):
        reader.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_machines_are_listed_and_shown():
    lines = [line.split(maxsplit=2) for line in septran("machines").output.splitlines()]
    assert ["cpu-x86", "cpu", "kernels can be built"] in lines
    assert "dma_in: asynchronous, GLOBAL -> SPM" in septran("machines", "dsa-sim").output
    data = json.loads(septran("machines", "--json").output)
    assert {m["name"] for m in data} >= {"cpu-x86", "dsa-sim", "nvidia-h200"}
    assert all(m["has_mapping"] for m in data)


def test_a_machine_file_whose_name_has_no_mapping_needs_one(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nextends: cpu-x86\n")
    found = septran("explain", "gemm", "--on", str(file), code=1)
    assert "no mapping comes with SepTran for a machine 'mine'" in found.output
    assert "pass a mapping, too" in found.output


def test_a_machine_that_is_not_this_host_is_not_measured(tmp_path):
    file = tmp_path / "here.yaml"
    found = septran("machines", "dsa-sim", "--measure", "-o", str(file), code=1)
    assert "dsa-sim is no CPU" in found.output
    assert not file.exists()
    assert "is for --measure" in septran("machines", "-o", str(file), code=2).output


def test_operators_are_listed_and_shown():
    from septran import operators

    lines = septran("ops").output.splitlines()
    assert [line.split()[0] for line in lines] == list(operators.names())
    assert "causal: --static, False by default" in septran("ops", "attention").output
    assert json.loads(septran("ops", "gemm", "--json").output)["example"] == {
        "M": 512, "N": 512, "K": 512,
    }  # fmt: skip


def test_the_cache_is_counted_and_emptied(monkeypatch, tmp_path):
    monkeypatch.setenv("SEPTRAN_CACHE_DIR", str(tmp_path / "cache"))
    septran("run", "gemm", *SMALL, "--no-torch")
    assert json.loads(septran("cache", "info", "--json").output)["entries"] == 1
    assert septran("cache", "clear").output.startswith("removed 1 kernel from ")
    assert ": 0 kernels," in septran("cache", "info").output


def test_a_cache_that_is_switched_off_is_said_to_be(monkeypatch):
    monkeypatch.setenv("SEPTRAN_CACHE", "0")
    assert "is not used: switched off" in septran("cache", "clear").output
    assert "not used: switched off" in septran("cache", "info").output


def test_the_doctor_finds_everything_in_order():
    found = {row["what"]: row for row in json.loads(septran("doctor", "--json").output)}
    assert found["kernel"]["found"].startswith("C: right")
    assert found["llvm"]["ok"]
    assert "ok  kernel" in septran("doctor").output


def test_the_doctor_exits_with_1_where_something_lacks(monkeypatch):
    from septran.commands import doctor

    monkeypatch.setattr(doctor, "PACKAGES", ("no-such-package",))
    assert "!!  no-such-package" in septran("doctor", code=1).output


@pytest.mark.parametrize(
    ("backend", "look", "variable"),
    [
        ("rocm", "hip compiler", "SEPTRAN_HIP_COMPILER"),
        ("opencl", "opencl device", "SEPTRAN_OPENCL"),
        ("cuda", "cuda compiler", "SEPTRAN_CUDA_COMPILER"),
    ],
)
def test_the_doctor_says_which_setting_is_wrong(monkeypatch, backend, look, variable):
    from septran.backends import backend_of
    from septran.commands.doctor import _guarded

    monkeypatch.setenv(variable, "/no/such/thing")
    found = _guarded(look, backend_of(backend).looks[look])
    assert not found.ok
    assert f"{variable} asks for '/no/such/thing'" in found.found or "pyopencl" in found.found
    monkeypatch.setenv(variable, "none")
    assert _guarded(look, backend_of(backend).looks[look]).ok


def test_a_mapping_without_its_option_is_told_of_it():
    said = " ".join(septran("run", "missing.py", "x.mapping.yaml", code=2).output.split())
    assert "-m x.mapping.yaml" in said
    assert "-m" not in septran("run", "gemm", "softmax", code=2).output


def test_machines_are_compared_by_the_option_that_other_commands_have():
    sizes = ("-s", "M=32", "-s", "N=32", "--json")
    by_option = septran("compare", "softmax", "--on", "cpu-x86", "--on", "dsa-sim", *sizes).stdout
    assert by_option == septran("compare", "softmax", "cpu-x86", "dsa-sim", *sizes).stdout
    assert "two or more" in septran("compare", "softmax", "--on", "dsa-sim", code=2).output


def test_a_type_that_a_machine_lacks_is_told_with_those_that_it_has():
    said = septran("explain", "gemm", "--on", "tpu-v5e", "--dtype", "float64", code=1).output
    assert "SEP321" in said
    assert "--dtype bfloat16 or int8 or float32 or float16" in said


def test_a_type_that_there_is_not_has_no_place_in_a_file():
    said = septran("explain", "gemm", "--dtype", "flaot32", code=1).output
    assert said.startswith("unknown element type 'flaot32'")
    assert "float32" in said


def test_the_machines_stand_in_columns():
    rows = septran("machines").output.splitlines()
    assert len({row.index("kernels") for row in rows if "kernels" in row}) == 1
    assert "a cache before GLOBAL: 256 MiB" in septran("machines", "amd-mi300x").output


def test_sizes_that_no_memory_holds_are_told_in_a_line():
    result = septran("run", "gemm", "-s", "M=99999999", "-s", "N=99999999", code=1)
    assert result.stderr.startswith("not enough memory: ")
    assert result.stderr.count("\n") == 2


@pytest.mark.parametrize("command", ["fuzz", "emulate nothing.ptx", "run gemm"])
def test_seeds_are_not_negative(command):
    assert "--seed" in septran(*command.split(), "--seed", "-1", code=2).stderr


@pytest.mark.slow
def test_a_short_fuzz_campaign_is_right():
    septran("fuzz", "--programs", "2")


def command(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, text=True, capture_output=True
    )


def test_a_full_traceback_is_shown_on_request():
    code = "from septran.cli import main; main()"
    short = command("-c", code, "ops", "gem")
    assert short.returncode == 1
    assert short.stderr.startswith("no operator 'gem' [SEP118]")
    os.environ["SEPTRAN_FULL_TRACEBACK"] = "1"
    try:
        full = command("-c", code, "ops", "gem")
    finally:
        del os.environ["SEPTRAN_FULL_TRACEBACK"]
    assert full.returncode == 1
    assert "Traceback" in full.stderr
    assert "no operator 'gem' [SEP118]" in full.stderr


def test_a_static_tuple():
    found = [value_of(text) for text in ("2,0,1", "2, 0", "2", "a,b", "1,x", ",")]
    assert found == [(2, 0, 1), (2, 0), 2, "a,b", "1,x", ","]
