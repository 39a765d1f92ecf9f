"""The whole front end, through `septran.explain`: what is shown is what was compiled."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

import septran
from septran.errors import SepTranError
from septran.views import compare, explain

SMALL = {"M": 100, "N": 80, "K": 72}


@pytest.fixture(scope="module")
def gemm():
    return explain("gemm", "dsa-sim", shapes=SMALL)


def test_all_five_stages_of_a_cpu_kernel_are_there():
    explanation = explain("gemm", "cpu-x86", shapes=SMALL)
    text = explanation.text()
    for title in ("1. Task tree", "2. Resolved mapping", "3. Tile program", "4. TensorIR"):
        assert f"\n{title}\n" in f"\n{text}"
    assert "not available" not in text
    assert "@T.prim_func" in explanation.text("tensor_ir")
    assert len(explanation.text("source")) > 500
    assert json.dumps(explanation.to_dict(), allow_nan=False)
    assert len(explanation._repr_mimebundle_()["text/html"]) < 1_000_000


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim", "nvidia-h200"])
def test_a_product_is_printed_on_at_most_two_screens(machine):
    assert len(str(explain("gemm", machine, dtypes="float16")).splitlines()) <= 130


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim"])
@pytest.mark.parametrize("operator", ["gemm", "softmax"])
def test_every_copy_and_wait_has_a_rule_and_a_logic_line(operator, machine):
    explanation = explain(operator, machine, shapes={**SMALL} if operator == "gemm" else
                          {"M": 100, "N": 80})  # fmt: skip
    for movement in explanation.movements:
        assert movement.origin.rule
        assert movement.origin.logic is not None
        assert movement.origin.logic.text.strip()
        assert movement.origin.mapping is not None, movement.text


def test_the_machine_need_not_be_here(gemm):
    assert gemm.tile_program.machine.name == "dsa-sim"
    kinds = {movement.kind for movement in gemm.movements}
    assert {"copy", "wait"} <= kinds
    assert "wait" in gemm.tile_program.draw().source


def test_totals_equal_the_ledgers(gemm):
    moved = sum(m.total_bytes for m in gemm.movements)
    assert moved == sum(gemm.ledger.edges.values())


def test_the_report_tries_the_tunables_of_the_mapping(gemm):
    report = gemm.report()
    assert re.search(r"block_K: \d+ -> \d+: ", report)
    assert len(report.splitlines()) <= 120
    assert len(report.encode()) <= 8192


def test_each_pass_is_shown(gemm):
    names = [step.name for step in gemm.passes]
    assert names[0] == "instantiate"
    assert gemm.passes[-1].program == gemm.tile_program
    page = gemm._repr_mimebundle_()["text/html"]
    assert all(name in page for name in names)


def test_a_changed_number_changes_the_stages(gemm):
    other = explain("gemm", "dsa-sim", shapes=SMALL, tunables={"block_K": 32})
    assert other.tile_program != gemm.tile_program
    assert {s.name for s in other.mapping.instances} == {s.name for s in gemm.mapping.instances}


def test_mappings_are_compared_stage_by_stage():
    large = {"M": 1000, "N": 64, "K": 96}
    found = compare("gemm", ["cpu-x86", "dsa-sim"], shapes=large)
    assert found.names == ("cpu-x86", "dsa-sim")
    figures = {row[0]: row[1:] for row in found.figures()}
    assert figures["machine"] == ("cpu-x86", "dsa-sim")
    assert ("gemm/gemm_core", "variant", ("gemm_by_panels", "gemm_core")) in {
        (d.task, d.key, d.values) for d in found.differences
    }
    assert found.stage_diff("tile_program").startswith("--- cpu-x86")


@pytest.mark.slow
def test_attention_fits_into_a_notebook():
    explanation = explain("attention", "nvidia-h200")
    assert len(explanation._repr_mimebundle_()["text/html"]) < 1_000_000
    assert "__global__" in explanation.text("source")


def test_mistakes_are_errors_of_septran():
    with pytest.raises(SepTranError, match="cpu-x68"):
        explain("gemm", "cpu-x68", shapes=SMALL)


def test_a_page_of_real_stages_is_inert(gemm, tmp_path):
    page = gemm.save_html(tmp_path / "gemm.html").read_text(encoding="utf-8")

    class Parser(HTMLParser):
        scripts = 0

        def handle_starttag(self, tag, attrs):
            Parser.scripts += tag == "script"
            assert not any(name.startswith("on") for name, _ in attrs)
            links = [value for name, value in attrs if name in ("src", "href")]
            assert all(v.startswith(("#", "data:image/svg+xml;base64,")) for v in links)

    Parser().feed(page)
    assert Parser.scripts == 1


def test_looking_at_an_object_first_does_not_hide_the_function():
    code = (
        "import septran, septran.views.stages\n"
        "from septran.views import compare\n"
        "septran.explain('softmax', 'dsa-sim', shapes={'M': 8, 'N': 8}).tile_program\n"
        "septran.compare('softmax', ['dsa-sim'], shapes={'M': 8, 'N': 8})\n"
        "from septran.views import compare\n"
        "compare('softmax', ['dsa-sim'], shapes={'M': 8, 'N': 8})\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_explaining_imports_no_heavy_libraries_before_they_are_needed():
    code = (
        "import sys, septran\n"
        "e = septran.explain('softmax', 'dsa-sim', shapes={'M': 8, 'N': 8})\n"
        "str(e.text('tile_program'))\n"
        "septran.explain('softmax', 'nvidia-h200', shapes={'M': 8, 'N': 8}).report()\n"
        "heavy = {'torch', 'tvm', 'pandas', 'matplotlib', 'IPython', 'pygments', 'graphviz'}\n"
        "found = heavy & sys.modules.keys()\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_kernels_profiles_and_ledgers_have_static_views(gemm):
    np = pytest.importorskip("numpy")
    kernel = septran.compile("gemm", "cpu-x86")
    assert "not compiled yet" in kernel._repr_mimebundle_()["text/html"]
    a = np.ones((16, 16), np.float32)
    kernel(a, a)
    page = kernel._repr_mimebundle_()["text/html"]
    assert "A: float32[16, 16]" in page
    assert "<script" not in page
    profile = kernel.profile(a, a, repeat=3)._repr_mimebundle_()
    assert "of the machine" in profile["text/html"]
    assert "times the compulsory traffic" in gemm.ledger._repr_mimebundle_()["text/html"]
