"""The pages for agents are current, their examples run, and the template finds what is wrong."""

from __future__ import annotations

import re

import pytest

import septran
from septran.agent.tools import TOOLS
from tests.agent.pages import FOLDER, GENERATED, ROOT, load


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_page_is_current(name, request):
    text = GENERATED[name]()
    if request.config.getoption("--update-golden"):
        (FOLDER / name).write_text(text, encoding="utf-8")
    assert (FOLDER / name).read_text(encoding="utf-8") == text, "run with --update-golden"


def test_the_api_has_every_tool_and_the_pages_are_not_long():
    text = (FOLDER / "api.md").read_text(encoding="utf-8")
    assert all(re.search(rf"`{name}\(", text) for name in TOOLS)
    assert all(len(p.read_text(encoding="utf-8")) < 60_000 for p in FOLDER.glob("*.md"))


PAGES = [*sorted(FOLDER.glob("*.md")), ROOT / "llms.txt"]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert targets
    for target in targets:
        assert "://" in target or (page.parent / target).exists(), target


def test_the_example_of_the_basics_runs(tmp_path, monkeypatch, capsys):
    text = (FOLDER / "basics.md").read_text(encoding="utf-8")
    logic, use = re.findall(r"```python\n(.*?)```", text, re.S)
    (mapping,) = re.findall(r"```yaml\n(.*?)```", text, re.S)
    (tmp_path / "relu_gemm.py").write_text(logic, encoding="utf-8")
    (tmp_path / "relu_gemm.mapping.yaml").write_text(mapping, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(use, "basics.md", "exec"), {})
    assert "Y: right" in capsys.readouterr().out


def test_the_template_runs_as_it_is_and_finds_what_is_wrong(monkeypatch, capsys):
    template = load(FOLDER / "verify_operator.py")
    monkeypatch.setattr(template, "SIZES", template.SIZES[:1])
    assert template.main() == 0
    right = template.oracle
    monkeypatch.setattr(template, "oracle", lambda i: {"Y": right(i)["Y"] * (1 + 1e-4)})
    assert template.main() == 1
    assert "elements are wrong" in capsys.readouterr().out


def test_the_index_names_the_version_that_it_is_of():
    text = (ROOT / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# SepTran\n\n> ")
    assert septran.__version__ in text
