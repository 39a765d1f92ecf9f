"""`Explanation`: all stages as text, a page, data and a bounded report."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from septran.errors import MappingError, TargetError
from septran.views.explanation import Explanation
from septran.views.text.report import BYTES, LINES, bounded

PAYLOAD = '"><script>pwned=1</script><img src=x onerror=pwned=1>\\'


class Stages:
    """Finished stages; those that are exceptions are raised when they are read."""

    passes = ()

    def __init__(self, **stages):
        self.made = stages
        self.asked = []

    def __getattr__(self, name):
        self.asked.append(name)
        stage = self.made[name]
        if isinstance(stage, Exception):
            raise stage
        return stage


@pytest.fixture
def stages(tree, resolved, program, source):
    no_code = TargetError("no code generator for backend 'cuda'", hint="there is cpu")
    return Stages(
        task_tree=tree, mapping=resolved, tile_program=program, tensor_ir=no_code, source=source
    )


@pytest.fixture
def explanation(stages):
    return Explanation(stages)


def headings(page):
    """Titles and attributes of a page; fails on anything that could run or load."""
    found = {"tags": [], "handlers": [], "scripts": 0, "loads": []}

    class Parser(HTMLParser):
        def handle_starttag(self, tag, attrs):
            found["tags"].append(tag)
            found["scripts"] += tag == "script"
            found["handlers"] += [name for name, _ in attrs if name.startswith("on")]
            found["loads"] += [
                value
                for name, value in attrs
                if name in ("src", "href", "srcset", "action", "data", "poster")
                and not (value or "").startswith(("data:image/svg+xml;base64,", "#"))
            ]

    parser = Parser()
    parser.feed(page)
    parser.close()
    return found


def test_code_is_generated_only_when_it_is_asked_for(stages):
    explanation = Explanation(stages)
    assert set(stages.asked) == {"task_tree", "mapping", "tile_program"}
    explanation.report()
    assert "source" not in stages.asked
    assert str(explanation.source).startswith("int main")


def test_mistakes_of_the_mapping_are_raised_at_once(stages):
    stages.made["mapping"] = MappingError("unknown memory 'SHRED'")
    with pytest.raises(MappingError, match="SHRED"):
        Explanation(stages)


def test_all_stages_are_printed_under_headings(explanation):
    text = explanation.text()
    titles = ["1. Task tree", "2. Resolved mapping", "3. Tile program", "4. TensorIR", "5. Source"]
    assert [line for line in text.splitlines() if line in titles] == titles
    assert "not available: no code generator for backend 'cuda' (there is cpu)" in text


def test_its_own_text_ends_before_code_and_names_what_there_is_besides(stages):
    text = str(Explanation(stages))
    titles = ["1. Task tree", "2. Resolved mapping", "3. Tile program", "Data movement", "Remarks"]
    assert [line for line in text.splitlines() if line in titles] == titles
    assert max(map(len, text.splitlines())) <= 120
    assert "source" not in stages.asked
    rest = text.split("More, in Python")[1]
    attributes = re.findall(r"\.(\w+)(?=[ ,(])", rest)
    assert len(attributes) == 9
    assert all(hasattr(Explanation, name) for name in attributes)


def test_each_copy_and_wait_is_printed_with_rule_and_lines(explanation):
    text = explanation.text(stage="tile_program")
    start = text.index("Copies and waits")
    paragraphs = re.split(r"\n(?=\d+\. )", text[start : text.index("Data movement")])[1:]
    assert len(paragraphs) == len(explanation.movements) == 7
    for paragraph in paragraphs:
        assert re.search(r"because  \w", paragraph)
        assert re.search(r"logic    tests/explain/conftest\.py:1  \S", paragraph)
        assert re.search(r"mapping  tests/explain/conftest\.py:3  \S", paragraph)
    assert "(12 x at most 4 KiB)" in paragraphs[1]


def test_a_default_is_said_to_be_one(explanation, program):
    from septran.views.text.movements import place_text

    assert place_text(None) == "(a default: no line asks for it)"


def test_an_unknown_stage_names_the_nearest(explanation):
    with pytest.raises(KeyError, match="tile_program"):
        explanation.text(stage="tile_programm")


def test_the_report_says_what_limits_and_what_would_help(explanation):
    report = explanation.report()
    assert "bandwidth (GLOBAL): predicted 162.3 us" in report
    assert "A: GLOBAL -> SHARED, 12 x at most 4 KiB, 37.5 KiB in all, by tma, beside the" in report
    assert "try: block_K: 16 would fit" in report
    assert "peak figures of the machine file" in report


def test_the_report_tries_each_tunable(stages, program):
    tried = []

    def again(changes):
        tried.append(dict(changes))
        if changes == {"block_M": 64}:
            raise MappingError("SHARED is full")
        (blocks,) = program.body
        return replace(program, body=(replace(blocks, body=blocks.body[:1]),))

    report = Explanation(stages, again).report()
    assert tried == [{"block_M": 64}, {"block_M": 16}, {"block_K": 64}, {"block_K": 16}]
    assert "block_M: 32 -> 64: not possible: SHARED is full" in report
    assert re.search(r"block_K: 32 -> 16: \S+ ns \(-\d+%\)", report)


def test_the_report_is_bounded(stages, program):
    remarks = tuple(
        replace(program.remarks[0], about=f"buffer {n}", message="long " * 100) for n in range(500)
    )
    stages.made["tile_program"] = replace(program, remarks=remarks)
    report = Explanation(stages).report()
    assert len(report.splitlines()) <= LINES
    assert len(report.encode()) <= BYTES
    for lines in (["x" * 5000] * 500, ["乘" * 150] * 100, ["a\nb\x00"] * 3):
        text = bounded(lines)
        assert len(text.splitlines()) <= LINES
        assert len(text.encode()) <= BYTES


def test_the_page_is_one_file_that_asks_for_nothing(explanation, tmp_path):
    path = explanation.save_html(tmp_path / "gemm.html")
    page = path.read_text(encoding="utf-8")
    found = headings(page)
    assert found["scripts"] == 1
    assert found["handlers"] == []
    assert found["loads"] == []
    assert "link" not in found["tags"]
    assert "default-src &#x27;none&#x27;" in page
    without_names = page.replace("http://www.w3.org/2000/svg", "")
    assert "http://" not in without_names
    assert "https://" not in without_names
    assert "prefers-color-scheme" in page


def test_hostile_names_run_nowhere_on_the_page(build, source, tmp_path):
    tree = build["tree"](name=PAYLOAD, doc=PAYLOAD)
    program = build["program"](rule=PAYLOAD)
    remark = replace(program.remarks[0], message=PAYLOAD, about=PAYLOAD, hint=PAYLOAD)
    stages = Stages(
        task_tree=tree,
        mapping=replace(build["resolved"](tree, PAYLOAD), file=PAYLOAD),
        tile_program=replace(program, name=PAYLOAD, remarks=(remark,)),
        tensor_ir=TargetError(PAYLOAD, hint=PAYLOAD),
        source=replace(source, text=PAYLOAD, parts={PAYLOAD: PAYLOAD}, facts={PAYLOAD: PAYLOAD}),
    )
    explanation = Explanation(stages)
    page = explanation.save_html(tmp_path / "page.html").read_text(encoding="utf-8")
    found = headings(page)
    assert (found["scripts"], found["handlers"], found["loads"]) == (1, [], [])
    static = headings(explanation._repr_mimebundle_()["text/html"])
    assert (static["scripts"], static["handlers"], static["loads"]) == (0, [], [])
    assert "style" not in static["tags"]


def test_a_notebook_gets_the_bounded_report_as_text(explanation):
    bundle = explanation._repr_mimebundle_()
    assert bundle["text/plain"] == explanation.report()
    assert "What limits it" in bundle["text/html"]


def test_data_survives_json(explanation):
    data = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    assert set(data["stages"]) == {"task_tree", "mapping", "tile_program", "tensor_ir", "source"}
    assert "no code generator" in data["stages"]["tensor_ir"]["unavailable"]
    assert [x["name"] for x in data["prediction"]["limits"][:2]] == ["GLOBAL", "GLOBAL -> SHARED"]


def test_nothing_can_be_changed_in_finished_stages(explanation):
    with pytest.raises(ValueError, match="nothing can be changed"):
        explanation.what_if({"block_M": 1})
    assert "no integer tunables" in explanation.report()
