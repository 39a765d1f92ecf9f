"""Every stage shows itself as inert static HTML, as text, as data and as a drawing."""

from __future__ import annotations

import base64
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from graphviz.backend import dot_command

from septran.targets.base import TensorIR
from septran.views.pictures import drawing
from septran.views.stages import draw
from septran.views.text.plain import stage_data

PAYLOADS = (
    "<script>alert(1)</script>",
    "</pre></details><script>pwned=1</script>",
    '"><img src=x onerror=pwned=1>',
    "' onmouseover='pwned=1",
    "<svg/onload=pwned=1>",
    "javascript:pwned=1",
    "&lt;script&gt;pwned=1&lt;/script&gt;",
    "<b>bold</b> -->",
    '\\"><b>',
    "tab\tnul\x00 bell\x07 line\nbreak",
    "乘法 <math><style></math>",
    "]]></title><iframe src=//evil>",
)
KEPT = {
    "div", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "pre", "span",
    "code", "b", "img",
}  # fmt: skip
"""What notebooks keep of HTML that they do not trust."""


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.words, self.open = set(), [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)

    def pictures(self):
        head = "data:image/svg+xml;base64,"
        sources = [value for _, name, value in self.attributes if name == "src"]
        assert all(source.startswith(head) for source in sources)
        return [base64.b64decode(source.removeprefix(head)).decode() for source in sources]


def assert_inert(page):
    tags = Tags(page)
    assert tags.open == []
    assert tags.tags <= KEPT
    assert {name for _, name, _ in tags.attributes} <= {"style", "class", "open", "src", "alt"}
    for picture in tags.pictures():
        root = ElementTree.fromstring(picture)
        for element in root.iter():
            assert not element.tag.lower().endswith(("script", "foreignobject", "image"))
            names = {name.lower() for name in element.attrib}
            assert not any(name.startswith("on") or name.endswith("href") for name in names)
    return tags


def bundle_of(stage):
    return stage._repr_mimebundle_()


@pytest.fixture
def stages(tree, resolved, program, source):
    return {"tree": tree, "mapping": resolved, "program": program, "source": source}


@pytest.mark.parametrize("name", ["tree", "mapping", "program", "source"])
def test_html_uses_only_what_untrusting_notebooks_keep(stages, name):
    bundle = bundle_of(stages[name])
    assert_inert(bundle["text/html"])
    assert bundle["text/plain"] == str(stages[name])


@pytest.mark.parametrize("name", ["tree", "mapping", "program"])
def test_drawings_are_shown_as_images(stages, name):
    (picture,) = Tags(bundle_of(stages[name])["text/html"]).pictures()
    assert "gemm" in picture
    assert 'font-family="ui-monospace' in picture


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.one_in(2)
def test_text_of_users_stays_text(build, payload):
    tree = build["tree"](name=payload, doc=payload)
    resolved = build["resolved"](tree, instance_name=payload)
    program = build["rename"](build["program"](rule=payload), name=payload)
    shown = payload.replace("\x00", "\ufffd").replace("\x07", "\ufffd")
    for stage in (tree, resolved, program):
        tags = assert_inert(bundle_of(stage)["text/html"])
        assert shown in tags.text
    ir = TensorIR(payload, type("M", (), {"script": lambda self, **_: payload})())
    assert shown in assert_inert(bundle_of(ir)["text/html"]).text


@pytest.mark.parametrize("payload", PAYLOADS)
def test_drawings_of_such_names_hold_no_markup_and_no_links(build, payload):
    resolved = build["resolved"](build["tree"](name=payload), instance_name=payload)
    for stage in (resolved.tree, resolved, build["program"](rule=payload)):
        picture = draw(stage)
        assert "URL" not in picture.source
        assert "href" not in picture.source.lower()
        assert "<b>" not in re.sub(r'"(\\.|[^"\\])*"', "", picture.source)


def test_every_copy_and_wait_names_its_rule_and_both_lines(program):
    text = Tags(bundle_of(program)["text/html"]).text
    assert "A is GLOBAL in gemm and SHARED in gemm_block, so it is copied in" in text
    assert "gemm_tile reads A_SHARED, which arrives asynchronously" in text
    assert text.count("tests/explain/conftest.py:3") >= 7
    assert '"""A gemm on a toy machine, built by hand' in text  # the logic line itself


def test_the_drawing_of_a_program_labels_copies_with_bytes_and_trips(program):
    source = draw(program).source
    assert "2: copy 12 x at most 4 KiB" in source
    assert "5: wait" in source
    assert "so it is copied in" in source  # as tooltip


def test_colours_are_never_the_only_sign(resolved):
    source = draw(resolved).source
    assert "A: SHARED" in source
    assert "C: in place, REGISTER" in source
    assert "BLOCK x 4 of HOST" in source


def test_results_are_equal_byte_for_byte(build):
    for make in ("tree", "resolved", "program"):
        first, second = bundle_of(build[make]()), bundle_of(build[make]())
        assert first == second


@pytest.mark.parametrize("name", ["tree", "mapping", "program", "source"])
def test_data_survives_json(stages, name):
    data = stage_data(stages[name])
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["stage"]


def test_data_keeps_places_and_index_maps(program):
    data = stage_data(program)
    copy = data["body"][0]["body"][1]["body"][1]
    assert copy["node"] == "Copy"
    assert copy["source"]["text"] == "A[32*i:+min(32, 100 - 32*i), 32*k:+min(32, 96 - 32*k)]"
    assert copy["origin"]["mapping"] == {
        "file": "tests/explain/conftest.py", "line": 3, "column": None,
    }  # fmt: skip


def test_infinite_numbers_become_text():
    from septran.views.text.plain import plain

    assert plain({"a": (float("-inf"), 1.5)}) == {"a": ["-inf", 1.5]}


def test_only_the_first_three_stages_have_a_drawing(source):
    with pytest.raises(TypeError, match="it is a text"):
        draw(source)


def test_a_drawing_of_very_many_tasks_is_cut_and_says_so(tree):
    (loop,) = tree.root.body
    many = replace(tree, root=replace(tree.root, body=(loop,) * 200))
    source = draw(many).source
    assert source.count(" -> ") < 200
    assert "more: see the text" in source


def test_without_dot_the_outline_is_shown(monkeypatch, tree):
    monkeypatch.setattr(drawing, "use_dot", lambda: False)
    picture = draw(tree)
    assert picture.svg() is None
    bundle = picture._repr_mimebundle_()
    assert set(bundle) == {"text/plain"}
    assert "launch gemm_tile(C, A[:, 32*k:+32], B[32*k:+32, :])" in bundle["text/plain"]
    assert "<img" not in bundle_of(tree)["text/html"]


def test_the_pure_renderer_is_used_where_there_is_no_dot(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(dot_command, "DOT_BINARY", dot_command.DOT_BINARY)
    assert drawing.use_dot()
    assert dot_command.DOT_BINARY.name == "graphviz-pure"


def test_long_texts_are_cut_and_say_so():
    from septran.views.pictures import html

    page = html.code("x = 1\n" * 100_000, "python")
    assert len(page) < 1.05 * html.TEXT_LIMIT
    assert "more characters" in page
    assert "<span" not in page.partition("</pre>")[0]


def _contrast(first, second):
    def luminance(colour):
        parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_all_colours_of_text_have_enough_contrast_with_their_background():
    from septran.views.pictures import colours

    for token in colours.TOKENS.values():
        assert _contrast(token.colour, colours.PAPER) >= 4.5, token
        assert _contrast(token.dark, colours.DARK_PAPER) >= 4.5, token
    for colour in colours.PALETTE:
        assert _contrast(colours.INK, colour.tint) >= 7, colour
        assert _contrast(colour.line, colours.PAPER) >= 3, colour


@pytest.mark.parametrize("name", ["tree", "mapping", "program", "source"])
def test_text_is_set_with_its_background_or_inherits(stages, name):
    tags = Tags(bundle_of(stages[name])["text/html"])
    for tag, attribute, value in tags.attributes:
        if attribute == "style" and re.search(r"(?<!-)color:#", value) and tag != "span":
            assert "background:#" in value
