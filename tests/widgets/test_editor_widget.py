"""The editor's Python side: questions of the view and their answers."""

from __future__ import annotations

import pytest

import septran

pytest.importorskip("anywidget")


@pytest.fixture
def editor(monkeypatch):
    made = septran.edit("gemm", "dsa-sim", shapes={"M": 128, "N": 128, "K": 128})
    made.answers = []
    monkeypatch.setattr(made, "send", lambda message: made.answers.append(message))
    return made


def ask(editor, **question):
    editor._asked(None, {"number": 7, "text": editor.data["text"], **question}, None)
    answer = editor.answers[-1]
    assert answer["number"] == 7
    return answer


def test_it_begins_with_all_stages(editor):
    assert [pane["name"] for pane in editor.data["stages"]["panes"]][-1] == "source"
    assert editor.data["mistakes"] == []
    assert "gemm" in editor.data["title"]


def test_a_mistake_keeps_the_text_and_goes_away_again(editor):
    text = editor.data["text"]
    ask(editor, want="text", text=text.replace("proc: CORE", "proc: CORK", 1))
    assert [m["line"] for m in editor.data["mistakes"]] == [
        1 + text[: text.index("proc: CORE")].count("\n")
    ]
    ask(editor, want="text", text=text)
    assert editor.data["mistakes"] == []
    assert editor.data["stages"] is not None


def test_a_knob_writes_its_value_and_the_prediction_follows(editor):
    knob = next(k for k in editor.data["knobs"] if k["name"] == "block_K")
    place = [knob["line"], knob["column"], knob["name"]]
    answer = ask(editor, want="turn", place=place, value=64)
    assert "value: 64}" in answer["text"]
    assert editor.data["text"] == answer["text"]
    moved = next(f for f in editor.data["figures"] if f[0] == "time")
    assert moved[3] is not None  # the value before, to compare with


def test_a_run_is_measured(editor):
    assert "cycles" in ask(editor, want="run")["measured"]


def test_saving_keeps_comments_and_never_overwrites(editor, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "saved as mine.yaml" in ask(editor, want="save", path="mine.yaml")["note"]
    assert (tmp_path / "mine.yaml").read_text("utf-8") == editor.data["text"]
    changed = editor.data["text"] + "# more\n"
    assert "exists" in ask(editor, want="save", path="mine.yaml", text=changed)["note"]
    assert "not a .yaml file" in ask(editor, want="save", path="mine.py")["note"]
    assert "# more" not in (tmp_path / "mine.yaml").read_text("utf-8")
