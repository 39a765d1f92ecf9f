"""The tutorials: made of their sources, twins of each other, small; and `septran notebooks`."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from septran.cli import app
from septran.commands.notebooks import TutorialExistsError, title, tutorials
from septran.lessons import lesson, names

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
SOURCES = sorted((FOLDER / "sources").glob("*.md"))
HAN = re.compile(r"[\u4e00-\u9fff]")
LARGEST = 600_000
"""Characters of a notebook's file."""
ATTENTION = 1_000_000
"""The same where all stages of attention are shown."""

pytest.importorskip("nbformat", reason="nbformat comes with septran[notebook]")


def refresh_module():
    spec = importlib.util.spec_from_file_location("notebooks_refresh", FOLDER / "refresh.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def cells(path: Path, kind: str | None = None) -> list[dict]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [c for c in found if kind in (None, c["cell_type"])]


def text(cell: dict) -> str:
    return "".join(cell["source"])


def pair(source: Path) -> tuple[Path, Path]:
    return FOLDER / f"{source.stem}.ipynb", FOLDER / "zh" / f"{source.stem}.ipynb"


def by_name(path: Path) -> str:
    return path.stem


def test_every_notebook_has_a_source_and_every_source_both_notebooks():
    names_of = {p.stem for p in SOURCES}
    assert names_of == {p.stem for p in FOLDER.glob("*.ipynb")}
    assert names_of == {p.stem for p in (FOLDER / "zh").glob("*.ipynb")}


@pytest.mark.parametrize("source", SOURCES, ids=by_name)
def test_notebooks_are_what_their_source_says(source):
    module = refresh_module()
    parsed = module.cells_of(source.read_text(encoding="utf-8"))
    for language, path in zip(("en", "zh"), pair(source), strict=True):
        made = module.notebook_of(parsed, language)
        assert [c.source for c in made.cells] == [text(c) for c in cells(path)], path


@pytest.mark.parametrize("source", SOURCES, ids=by_name)
def test_twins_have_the_same_code_and_outputs_and_other_words(source):
    english, chinese = pair(source)
    for one, other in zip(cells(english, "code"), cells(chinese, "code"), strict=True):
        if "exercise" not in text(one):
            assert one == other
            continue
        assert text(one) == text(other)
        assert len(one["outputs"]) == len(other["outputs"])
        assert not HAN.search(json.dumps(one["outputs"], ensure_ascii=False))
        assert HAN.search(json.dumps(other["outputs"], ensure_ascii=False)) or not one["outputs"]
    words = list(zip(cells(english, "markdown"), cells(chinese, "markdown"), strict=True))
    assert words
    for one, other in words:
        assert not HAN.search(text(one))
        assert HAN.search(text(other))


@pytest.mark.parametrize("source", SOURCES, ids=by_name)
def test_pictures_are_of_a_kind_that_jupyterlab_shows(source):
    """It draws attached images/png and the like; of attached SVG it shows a broken picture."""
    pictures = re.findall(r"\(images/([\w.-]+)\.svg\)", source.read_text(encoding="utf-8"))
    for path in pair(source):
        shown = [c for c in cells(path, "markdown") if c.get("attachments")]
        assert len(pictures) == 2 * sum(len(c["attachments"]) for c in shown)
        for cell in shown:
            for name, data in cell["attachments"].items():
                assert f"(attachment:{name})" in text(cell)
                (content,) = {
                    k: base64.b64decode(v) for k, v in data.items() if k == "image/png"
                }.values()
                assert content == (FOLDER / "sources" / "images" / name).read_bytes()
                assert content.startswith(b"\x89PNG")


def test_what_was_measured_makes_no_output_stale():
    module = refresh_module()

    def shown(words):
        return [{"output_type": "stream", "text": words}]

    one, other = (
        shown("1 of 5 exposed\n12.3 us,  5 GB/s"),
        shown("1 of 5 exposed\n9 us, 70 GB/s"),
    )
    assert module.lasting(one) == module.lasting(other) == ["1 of 5 exposed", "_, _"]
    assert module.lasting(one) != module.lasting(shown("3 of 5 exposed\n12.3 us, 5 GB/s"))


@pytest.mark.parametrize("source", SOURCES, ids=by_name)
def test_all_code_was_executed_and_went_well(source):
    runs = [c["execution_count"] for c in cells(pair(source)[0], "code")]
    assert runs == list(range(1, len(runs) + 1))
    outputs = [o for c in cells(pair(source)[0], "code") for o in c["outputs"]]
    assert not [o for o in outputs if o["output_type"] == "error"]


@pytest.mark.parametrize("source", SOURCES, ids=by_name)
def test_notebooks_are_small_and_need_no_live_view(source):
    for path in pair(source):
        limit = ATTENTION if "attention" in source.stem else LARGEST
        assert path.stat().st_size <= limit
        assert "widget-view" not in path.read_text(encoding="utf-8")


def test_code_that_a_lesson_starts_with_is_in_the_notebook_that_shows_it():
    code = {p: "\n".join(text(c) for c in cells(p, "code")) for p in FOLDER.glob("*.ipynb")}
    for name in names():
        showing = [written for written in code.values() if f'lesson("{name}")' in written]
        if not showing:
            continue
        start = lesson(name).start
        if lesson(name).mends == "mapping" and '"""' in showing[0]:
            assert str(start).strip() in showing[0], name


def test_the_parser_tells_what_is_wrong_with_a_source():
    module = refresh_module()
    with pytest.raises(module.SourceError, match="one language is missing"):
        module.cells_of("<!-- en -->\n# A\n```python\n1\n```\n")
    with pytest.raises(module.SourceError, match="line 1 is in no language"):
        module.cells_of("words\n")


def test_chinese_lines_are_joined_without_spaces():
    module = refresh_module()
    assert module.joined("一行\n二行，\nABC") == "一行二行，\nABC"


def test_the_five_cells_of_the_first_tour():
    code = [text(c) for c in cells(FOLDER / "00_quickstart.ipynb", "code")]
    assert len(code) == 5
    shown = ["task.run", "kernel.explore()", "kernel.profile", "profile(a, b).explore()", "compare"]
    assert all(word in cell for word, cell in zip(shown, code, strict=True))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_command_copies_the_tutorials(language, tmp_path):
    target = tmp_path / "mine"
    result = CliRunner().invoke(app, ["notebooks", str(target), "--language", language])
    assert result.exit_code == 0, result.output
    assert {p.name for p in target.iterdir()} == {p.name for p in tutorials(language)}
    first = target / "00_quickstart.ipynb"
    assert bool(HAN.search(title(first))) == (language == "zh")


def test_the_command_replaces_nothing_unasked(tmp_path):
    (tmp_path / "00_quickstart.ipynb").write_text("mine", encoding="utf-8")
    refused = CliRunner().invoke(app, ["notebooks", str(tmp_path)])
    assert refused.exit_code == 1
    assert TutorialExistsError.code in refused.output
    assert (tmp_path / "00_quickstart.ipynb").read_text(encoding="utf-8") == "mine"
    assert CliRunner().invoke(app, ["notebooks", str(tmp_path), "--force"]).exit_code == 0
    assert title(tmp_path / "00_quickstart.ipynb") == "A first tour"


def test_the_command_lists_them_without_a_folder():
    result = CliRunner().invoke(app, ["notebooks"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) == len(SOURCES)
    assert "00_quickstart" in result.output
    assert "A first tour" in result.output


@pytest.mark.parametrize("page", ["docs/tutorials.md", "docs/zh/tutorials.md"])
def test_the_manual_lists_every_tutorial(page):
    listed = (ROOT / page).read_text(encoding="utf-8")
    assert [p.stem for p in SOURCES if f"`{p.stem}`" not in listed] == []
