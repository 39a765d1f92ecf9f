"""Scripts are joined into one module without a build step."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from septran_widgets import modules

VIEWS = sorted(
    path.stem for path in modules.FOLDER.glob("*.js") if "export default" in path.read_text("utf-8")
)
ROOTS = (
    "sep-comparison", "sep-memory", "sep-element-view", "sep-access-view", "sep-ledger",
    "sep-layout-view",
)  # fmt: skip
"""The roots of the views that are never a part of another one."""


@pytest.mark.parametrize("name", VIEWS)
def test_a_joined_script_imports_nothing(name):
    text = modules.script(name)
    assert not re.search(r"^\s*import\b", text, re.MULTILINE)
    assert text.count("export ") == 1  # the default, which notebooks ask for
    assert "innerHTML" not in text


@pytest.mark.parametrize("name", VIEWS)
def test_a_joined_script_is_valid(name, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here to parse it")
    path = tmp_path / f"{name}.mjs"
    path.write_text(modules.script(name), "utf-8")
    subprocess.run([node, "--check", str(path)], check=True)


@pytest.mark.parametrize("name", VIEWS)
def test_scripts_and_styles_ask_nothing_of_a_network(name):
    text = modules.script(name) + modules.styles_of(name)
    links = re.findall(r"https?://[^\s\"'`]+", text)
    assert set(links) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"url\((?!#)", text)


LINES = """
import { coloured } from "./colouring.mjs";
const { text, language } = JSON.parse(process.argv[2]);
console.log(JSON.stringify(coloured(text, language).map((line) => line.map((part) => part[2]))));
"""


@pytest.mark.parametrize(
    ("language", "text", "kind"),
    [
        ("python", '"""A is\nin B\n"""\nimport a', "string"),
        ("python", '"""A is\nin B\n', "string"),
        ("c", "/* for\nwhile\n*/\nint a;", "comment"),
    ],
)
def test_a_text_of_several_lines_is_coloured_as_one(language, text, kind, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here to run it")
    (tmp_path / "colouring.mjs").write_text(modules._read("colouring"), "utf-8")
    (tmp_path / "lines.mjs").write_text(LINES, "utf-8")
    given = json.dumps({"text": text, "language": language})
    told = subprocess.run(
        [node, str(tmp_path / "lines.mjs"), given], check=True, capture_output=True, text=True
    )
    kinds = json.loads(told.stdout)
    assert kinds[:2] == [[kind], [kind]]
    assert len(kinds) < 4 or kinds[3] == ["keyword"]


FIGURES = """
const words = [];
class Element {
  setAttribute() {}
  append(...all) { words.push(...all.filter((one) => typeof one === "string")); }
  replaceChildren(...all) { this.append(...all); }
  addEventListener() {}
}
globalThis.Node = Element;
globalThis.document = {
  createElement: () => new Element(), createElementNS: () => new Element(),
  createTextNode: (text) => { words.push(text); return new Element(); },
};
const figure = (better) => [{ title: "t", unit: "B", values: [0, 8], better }];
for (const better of ["", "less", "more"]) {
  words.length = 0;
  figuresTable(figure(better), ["a", "b"], ["m", "m"]);
  console.log(words.filter((word) => word === "best").length);
}
"""


def test_only_figures_that_can_be_better_have_a_best(tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here to run it")
    path = tmp_path / "figures.mjs"
    path.write_text(modules.script("figures_view") + FIGURES, "utf-8")
    told = subprocess.run([node, str(path)], check=True, capture_output=True, text=True)
    assert told.stdout.split() == ["0", "1", "1"]


def test_files_are_joined_once_and_in_order():
    assert modules._order("dom") == ["dom"]
    for name in VIEWS:
        order = modules._order(name)
        assert order[-1] == name
        assert len(order) == len(set(order))


def test_a_view_looks_the_same_whatever_else_a_notebook_shows():
    """Sheets of all views are in one document: what one styles, no other view may use."""
    own = {name: set(modules._order(name)) for name in VIEWS}
    for sheet in sorted({path.stem for path in modules.FOLDER.glob("*_view.css")}):
        free = {name for name in _unscoped(sheet) if name != "sep-view"}
        for view in (name for name in VIEWS if sheet not in own[name]):
            used = {word for file in own[view] for word in _classes(modules._read(file))}
            assert not free & used, f"{sheet}.css styles {free & used} of {view}"


def _unscoped(sheet):
    """Classes that a sheet styles outside of its own view's root."""
    text = re.sub(r"\{[^{}]*\}", ",", (modules.FOLDER / f"{sheet}.css").read_text("utf-8"))
    selectors = [one.strip() for one in re.split(r"[,{}]", text) if "." in one]
    free = [one for one in selectors if not one.startswith(tuple(f".{root} " for root in ROOTS))]
    return {name for one in free for name in _classes(one)}


def _classes(text):
    return set(re.findall(r"(?<!-)\bsep-[a-z][\w-]*", text))
