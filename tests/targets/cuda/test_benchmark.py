"""``python -m benchmarks.gpu`` as far as it goes without a GPU, and its half for a bare machine."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import septran
from benchmarks import gpu
from benchmarks.gpu_cases import FAMILIES, LADDER, GpuCase, cases, ladder
from benchmarks.gpu_prepare import ladder_table, prepare, table
from septran.mapping.loader import load_mapping

ROOT = Path(__file__).parents[3]
SMALL = GpuCase("gemm", "gemm", {"M": 256, "N": 512, "K": 128}, "float16")


def test_every_family_has_cases_with_names_of_their_own():
    names = [case.name for family in FAMILIES for case in cases(family)]
    assert len(names) == len(set(names))
    assert len(list(cases("odd"))) == 30
    assert all(name.isidentifier() for name in names)


@pytest.mark.parametrize("case", list(ladder()), ids=lambda case: case.label)
def test_each_step_of_the_ladder_is_a_mapping(case):
    assert load_mapping(case.mapping("nvidia-h200")).machine.name == "nvidia-h200"


def test_each_step_of_the_ladder_changes_the_program():
    programs = [
        septran.produce_stages(
            case.operator, case.mapping("nvidia-h200"), shapes=dict(case.dims), dtypes=case.dtype,
            tunables=dict(case.tunables),
        ).tile_program
        for case in ladder(4096)
    ]  # fmt: skip
    assert len(programs) == len(LADDER)
    assert all(str(a) != str(b) for a, b in pairwise(programs))
    assert "multicast to 2 blocks" in str(programs[-1])


@pytest.mark.slow
def test_the_ladder_tells_what_each_step_costs(cuda_compiler):
    made = [prepare(case, "nvidia-h200") for case in list(ladder())[-3:]]
    assert [row.error for row in made] == [""] * 3
    persistent, raster, cluster = made
    assert persistent.fetched > raster.fetched  # neighbours share more rows and columns
    assert persistent.copied == raster.copied > cluster.copied
    assert all(row.spills == 0 and row.stages == 4 for row in made)
    assert cluster.facts["blocks a cluster"] == 2
    *_, last = ladder_table(made)
    assert last.startswith("| cluster 2 | `{match: {holds: parallel}, persistent: true, raster: 8")


def test_a_dry_run_compiles_counts_and_predicts(cuda_compiler):
    prepared = prepare(SMALL, "nvidia-h200")
    assert prepared.error == ""
    assert prepared.flops == 2 * 256 * 512 * 128
    assert prepared.bytes_moved == 2 * (256 * 128 + 128 * 512 + 256 * 512)
    assert prepared.spills == 0
    assert 0 < prepared.registers <= 255
    assert 0 < prepared.predicted_seconds < 1e-3
    _, _, row = table([prepared])
    assert row.startswith("| gemm_256x512x128_float16 | ")


def test_what_cannot_be_compiled_is_a_row():
    prepared = prepare(GpuCase("x", "gemm", {"M": 8}, "float16"), "nvidia-h200")
    assert prepared.error
    _, _, row = table([prepared])
    assert prepared.error in row


WORKER = """
import json, os, sys, time
sys.modules["septran"] = sys.modules["tvm"] = None
import torch
from benchmarks import gpu_worker
from benchmarks.gpu_bundle import Loaded
torch.cuda.synchronize = lambda: None
folder, name, factor = gpu_worker.Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
case = Loaded.of(folder / name)
def product(A, B, C):
    C.copy_((A.float() @ B.float() * factor).to(C.dtype))
def called(*tensors):
    by_name = dict(zip([t[0] for t in case.meta["tensors"]], tensors))
    product(by_name["A"], by_name["B"], by_name["C"])
print(json.dumps(gpu_worker.run(Loaded(case.place, case.meta, called), "cpu", check_only=True)))
"""
"""A bundle's case without SepTran, the kernel's part played by torch on the CPU."""


@pytest.mark.parametrize("family", ["gemm", "library"])
@pytest.mark.one_in(2, first=1)
def test_an_exported_case_is_checked_without_septran(family, tmp_path, cuda_compiler):
    case = replace(SMALL, family=family)
    prepared = prepare(case, "nvidia-h200", tmp_path)
    assert prepared.error == ""
    for factor, right in ((1.0, True), (1.01, False)):
        done = subprocess.run(
            [sys.executable, "-c", WORKER, str(tmp_path), case.name, str(factor)], cwd=ROOT,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert (0 < answer["error"] <= 1) == right
    facts = json.loads((tmp_path / case.name / gpu.META).read_text())
    assert facts["flops"] == prepared.flops
    assert [t[0] for t in facts["tensors"]] == ["C", "A", "B"]


ANSWERS = """
import json, os, sys, time
for line in sys.stdin:
    name = line.strip()
    if name == "hangs":
        time.sleep(60)
    if name == "dies":
        os.abort()
    answer = {"failed": "RuntimeError: illegal"} if name == "faults" else {"error": 0.5}
    print(json.dumps({"name": name, **answer}), flush=True)
"""


def test_a_kernel_that_hangs_or_faults_costs_its_own_case_only(tmp_path, monkeypatch):
    names = ["first", "hangs", "second", "dies", "faults", "last"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / gpu.META).write_text(json.dumps({"name": name, "family": "x"}))
    monkeypatch.setattr(gpu, "WORKER", ["-c", ANSWERS])
    rows = list(gpu.measure_all([tmp_path / name for name in names], 2.0))
    said = {row.meta["name"]: row.failed for row in rows}
    assert said == {
        "first": "", "hangs": "no answer within 2 s", "second": "", "dies": "the process ended",
        "faults": "RuntimeError: illegal", "last": "",
    }  # fmt: skip
    assert [row.right for row in rows] == [not text for text in said.values()]
    kept = (tmp_path / gpu.RESULTS).read_text().splitlines()
    assert [json.loads(line)["name"] for line in kept] == names
    assert "| hangs | no answer within 2 s |" in list(gpu.report(rows, "here"))[5]


@pytest.mark.parametrize(
    ("operator", "static"),
    [
        ("attention", {"causal": False}), ("attention", {"causal": True}), ("softmax", {}),
        ("layer_norm", {}), ("rms_norm", {}), ("dequant_gemm", {"bits": 4, "group": 32}),
        ("conv2d_nhwc", {"stride": 2, "padding": 1}),
    ],
)  # fmt: skip
def test_bounds_hold_for_torch_and_fail_for_wrong_results(operator, static):
    """Results of the same dtypes are within the bound, and one wrong element is not."""
    import torch

    from benchmarks.gpu_rivals import exact, unpacked

    torch.manual_seed(0)
    meta = {"operator": operator, "static": static}
    half = torch.float16
    made = {
        "attention": {n: torch.randn(1, 2, 96, 32).to(half) for n in "QKV"},
        "softmax": {"X": torch.randn(8, 300).to(half)},
        "layer_norm": {
            "X": torch.randn(8, 300).to(half), "W": torch.randn(300).to(half),
            "bias": torch.randn(300).to(half),
        },
        "rms_norm": {"X": torch.randn(8, 300).to(half), "W": torch.randn(300).to(half)},
        "dequant_gemm": {
            "A": torch.randn(4, 64).to(half),
            "W": torch.randint(0, 256, (32, 16), dtype=torch.uint8),
            "scale": torch.randn(2, 16).to(half), "zero": torch.randint(4, 12, (2, 16)).to(half),
        },
        "conv2d_nhwc": {
            "X": torch.randn(2, 9, 8, 16).to(half), "F": torch.randn(3, 3, 16, 8).to(half),
        },
    }[operator]  # fmt: skip
    single = {name: x.float() if x.is_floating_point() else x for name, x in made.items()}
    if operator == "dequant_gemm":
        found = single["A"] @ unpacked(meta, made).half().float()
    elif operator == "conv2d_nhwc":
        planes, weights = single["X"].permute(0, 3, 1, 2), single["F"].permute(3, 2, 0, 1)
        found = torch.conv2d(planes, weights, None, 2, 1).permute(0, 2, 3, 1)
    else:
        found = exact(meta, single)[0].float()
    wanted, bound = exact(meta, made)
    assert wanted.shape == found.shape
    away = (found.half().double() - wanted).abs() / bound
    assert float(away.max()) <= 1
    wrong = found.half().double()
    wrong.view(-1)[3] += 0.05 * float(wanted.abs().mean()) + 1e-3
    assert float(((wrong - wanted).abs() / bound).max()) > 1


def test_the_page_has_ratios_means_and_goals():
    meta = {
        "operator": "gemm", "dims": {"M": 64}, "dtype": "float16", "static": {"causal": True},
        "label": "", "flops": 2_000_000, "bytes_moved": 1000, "predicted_seconds": 5e-6,
        "family": "gemm",
    }  # fmt: skip
    rows = [
        gpu.Measured(meta, 0.25, {"SepTran": 1e-5, "cuBLAS": 1.1e-5, "Triton": 2e-5}, 2e-6),
        gpu.Measured(meta, 3.0, {"SepTran": 1e-6, "cuBLAS": 1e-5}, 2e-6),
        gpu.Measured({**meta, "name": "checked"}, 0.5, {}),
    ]
    lines = list(gpu.report(rows, "here"))
    assert lines[4] == (
        "| gemm 64 float16 causal | 0.25 | 10.0 | 0.2 | 0 | 50% | 1.100 "
        "| cuBLAS 11.0 us, Triton 20.0 us | 2.00 |"
    )
    assert "**WRONG**" in lines[5]  # and its speed does not count
    assert lines[6] == "| checked | 0.50 | | | | | | | |"
    assert lines[-1] == "| gemm | 1 | 1.100 | 1.100 | 1.0 | 1.04 |"


def test_the_ladder_is_a_table_of_its_own():
    def step(label, seconds):
        meta = {"family": "ladder", "label": label, "flops": 4_000_000}
        return gpu.Measured(meta, 0.5, {"SepTran": seconds, "cuBLAS": 1e-5}, 2e-6)

    lines = list(gpu.report([step("01 roles", 1e-5), step("00 wgmma", 2e-5)], "here"))
    assert lines[-2:] == [
        "| wgmma | 0.50 | 20.0 | 0.2 |  | 0.500 |",
        "| roles | 0.50 | 10.0 | 0.4 | 2.00 | 1.000 |",
    ]


def test_without_a_gpu_the_command_says_so(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / gpu.META).write_text("{}")
    with pytest.raises(SystemExit, match="finds no NVIDIA GPU"):
        gpu.main([str(tmp_path)])


def test_without_a_folder_it_needs_a_gpu(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="finds no NVIDIA GPU"):
        gpu.main([])
    with pytest.raises(SystemExit, match="nothing in"):
        gpu.main(["/nonexistent"])


def documented():
    """The commands of the page, as they would be split by a shell."""
    page = (Path(__file__).parents[3] / "docs" / "nvidia.md").read_text()
    found = re.findall(r"python -m benchmarks\.gpu([^#`\n]*)", page)
    return [shlex.split(line) for line in found]


@pytest.mark.parametrize("arguments", documented(), ids=" ".join)
def test_commands_of_the_page_do_what_it_says(arguments, monkeypatch, tmp_path):
    """All but the GPU: what is compiled, what is measured, and where the page goes."""
    import torch

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu, "_here", lambda: "here")
    exported, measured = [], []

    def prepared(options):
        for family in options.families:
            for place, case in enumerate(gpu.chosen([family], options.quick)):
                exported.append(case.name)
                (options.export / case.name).mkdir()
                _kept(options.export / case.name, family, place)
                yield case.name

    def measure_all(found, seconds, check_only):
        measured.extend(path.name for path in found)
        return iter(())

    monkeypatch.setattr(gpu, "_prepared", prepared)
    monkeypatch.setattr(gpu, "measure_all", measure_all)
    gpu.main(arguments)
    wanted = [case.name for case in gpu.chosen(list(gpu.FAMILIES), "--quick" in arguments)]
    assert exported == wanted
    assert sorted(measured) == sorted(wanted)
    if "--output" in arguments:
        assert "here" in Path("results.md").read_text()


def _kept(place, section, number):
    facts = {"section": section, "place": number}
    (place / gpu.META).write_text(json.dumps(facts), encoding="utf-8")


def test_quick_and_families_choose_among_what_was_exported(tmp_path):
    paths = [tmp_path / case.name for case in gpu.chosen(["odd", "softmax"], False)]
    for path, case in zip(paths, gpu.chosen(["odd", "softmax"], False), strict=True):
        path.mkdir()
        _kept(
            path, "softmax" if case.operator == "softmax" else "odd", len(paths) - paths.index(path)
        )
    few = gpu.wanted(paths, ["softmax"], True)
    assert [p.name for p in few] == [[case.name for case in gpu.chosen(["softmax"], False)][-1]]
    assert len(gpu.wanted(paths, ["softmax", "odd"], False)) == len(paths)
    with pytest.raises(SystemExit, match="no case of norm is among 1"):
        gpu.wanted(paths[:1], ["norm"], False)
