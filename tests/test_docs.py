"""The documentation says what the code does: its examples run, its lists are complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import septran
from septran.cli import app
from septran.emulator import UnfinishedError
from septran.machine.schema import ENGINE, INSTRUCTION, MACHINE, MEMORY, PROCESSOR
from septran.mapping.schema import INSTANCE, MAPPING, MATCH, RULE
from septran.task import __all__ as language
from septran.tile.passes import PASSES
from septran.tile.passes.copies.instantiate import instantiate

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "README.zh.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
PAGES += sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "zh").glob("*.md")])


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[tuple[str, str]]:
    """Fenced code as (language, code)."""
    return re.findall(r"^```(\w+)\n(.*?)^```", text(page), re.S | re.M)


def test_the_readme_example_runs_and_says_what_it_says(tmp_path):
    seen, logic, use = (code for kind, code in blocks("README.md") if kind == "python")
    assert len(seen.splitlines()) == 3
    (mapping,) = (code for kind, code in blocks("README.md") if kind == "yaml")
    (tmp_path / "my_gemm.py").write_text(logic, encoding="utf-8")
    (tmp_path / "my_gemm.mapping.yaml").write_text(mapping, encoding="utf-8")
    explained = [line for line in seen.splitlines() if "explore" not in line]
    (tmp_path / "use.py").write_text("\n".join([use, *explained]), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "use.py"], cwd=tmp_path, env=environment, text=True, capture_output=True
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("C: right, error at most ")
    (shown,) = (code for kind, code in blocks("README.md") if kind == "text")
    for line in shown.splitlines()[1:]:
        assert line in result.stdout


def test_the_readme_example_is_short():
    _, *code = [c for kind, c in blocks("README.md") if kind in ("python", "yaml")]
    assert sum(len(c.splitlines()) for c in code) <= 40


def test_the_readmes_are_short():
    assert all(len(text(page).splitlines()) < 150 for page in ("README.md", "README.zh.md"))


def test_both_readmes_show_the_same():
    def without_comments(page: str) -> list[str]:
        return [re.sub(r" *#.*", "", code) for _, code in blocks(page)]

    assert without_comments("README.md") == without_comments("README.zh.md")


def test_the_emulator_page_edits_a_wait_and_the_emulator_finds_it(capsys):
    (code,) = (code for _, code in blocks("docs/emulator.md") if "with_source" in code)
    with pytest.raises(UnfinishedError):
        exec(code, {})
    assert '+  asm volatile("cp.async.wait_group 3;"' in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_manual_names_every_command():
    names = set(get_command(app).commands)
    for page in ("docs/command_line.md", "docs/zh/command_line.md"):
        assert names == set(re.findall(r"`septran (\w+)", text(page))), page


@pytest.mark.parametrize("name", language)
def test_the_language_page_names_every_construct(name):
    assert re.search(rf"\b{name}\b", text("docs/language.md"))


def mentioned(keys: object, page: str) -> list[str]:
    return [key for key in keys if f"`{key}`" not in text(page)]  # type: ignore[attr-defined]


def test_the_mapping_page_names_every_key():
    for record in (MAPPING, INSTANCE, RULE, MATCH, MACHINE, PROCESSOR, MEMORY, ENGINE, INSTRUCTION):
        assert mentioned(record.fields, "docs/mapping.md") == []


def test_the_architecture_page_names_the_passes_in_order():
    """Each pass has its place in the order, below the heading of the folder that it is in."""
    listed = text("docs/architecture.md").split("The passes by the folder")[1]
    rows = re.findall(r"^(?:`(\w+)/`: .*|\| (\d+) \| `(\w+)` \|.*)$", listed, re.M)
    folder, places = "", {}
    for heading, place, name in rows:
        folder = heading or folder
        if name:
            places[int(place)] = (name, folder)
    passes = [instantiate, *PASSES]
    names = [(each.__name__, each.__module__.split(".")[-2]) for each in passes]
    assert places == dict(enumerate(names, start=1))


def test_the_architecture_page_names_every_folder_and_file_in_its_place():
    house = text("docs/architecture.md").split("```text")[1].split("```")[0]
    package = ROOT / "septran"
    folders = [p.name for p in package.iterdir() if (p / "__init__.py").exists()]
    for folder in folders:
        assert f"{folder}/" in house, folder
    for file in package.glob("*.py"):
        assert file.name in house, file.name


def test_paths_in_the_architecture_page_exist():
    for path in re.findall(r"`(septran/[\w/]+\.py)`", text("docs/architecture.md")):
        assert (ROOT / path).exists(), path


def test_public_names_are_in_the_documentation():
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in septran.__all__:
        assert name == "__version__" or re.search(rf"\b{name}\b", pages), name
