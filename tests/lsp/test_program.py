"""What a mapping file is looked at with."""

from __future__ import annotations

import builtins

import pytest

from septran.lsp.program import EditedLogic, subject_of
from septran.lsp.server import Documents, LanguageServerMissingError, kind_of, make_server


def test_a_comment_names_logic_and_sizes(tmp_path):
    file = tmp_path / "x.mapping.yaml"
    found = subject_of("# logic: gemm M=64 N=32\n", file)
    assert found == EditedLogic("gemm", {"M": 64, "N": 32})
    assert found.shipped
    assert subject_of("machine: cpu-x86\n", file) is None


def test_else_the_file_beside_is_taken(tmp_path):
    (tmp_path / "x.py").write_text("")
    found = subject_of("machine: cpu-x86\n", tmp_path / "x.mapping.yaml")
    assert found == EditedLogic(tmp_path / "x.py", {})
    assert not found.shipped


@pytest.mark.parametrize(
    ("line", "column", "length", "says"),
    [
        ("# logic: gem M=64", 10, 3, "no operator 'gem'"),
        ("# logic: mine.py M=64", 10, 7, "no file 'mine.py'"),
        ("# logic: gemm M=64 N=x", 20, 3, "'N=x' is no size"),
    ],
)
def test_a_wrong_line_is_a_mistake_at_its_word(tmp_path, line, column, length, says):
    documents, uri = Documents(), (tmp_path / "m.mapping.yaml").as_uri()
    (told,) = documents.update(uri, f"extends: dsa-sim\n{line}\n", compiled=True)
    assert (told.code, told.where.line) == ("SEP329", 2)
    assert (told.where.column, told.where.length) == (column, length)
    assert says in told.message


def test_a_mistake_of_the_logic_is_at_the_line_that_names_it(tmp_path):
    documents, uri = Documents(run_logic=True), (tmp_path / "m.mapping.yaml").as_uri()
    text = "extends: dsa-sim\n# logic: mine.py\n"
    (tmp_path / "mine.py").write_text("\n\n\n\nimport nothing_of_this_name\n")
    (told,) = documents.update(uri, text, compiled=True)
    assert told.where.line == 2
    assert "mine.py" in told.message


def test_a_machine_is_known_by_its_sections():
    assert kind_of("name: a\nbackend: dsa\n") == "machine"
    assert kind_of("machine: cpu-x86\nrules: []\n") == "mapping"


def test_the_prediction_stays_while_a_mistake_is_written(tmp_path):
    documents, uri = Documents(), (tmp_path / "m.mapping.yaml").as_uri()
    text = (
        "# logic: softmax M=64 N=64\nextends: dsa-sim\nrules: [{match: {level: 1}, pipeline: 1}]\n"
    )
    assert documents.update(uri, text, compiled=True) == []
    assert "predicted" in documents.hover(uri, text, 2, 30)
    (mistake,) = documents.update(uri, text.replace("pipeline", "pipelin"), compiled=False)
    assert mistake.code == "SEP303"
    assert "predicted" in documents.hover(uri, text, 2, 30)


def test_without_the_package_an_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest, **more):
        if name == "lsprotocol":
            raise ModuleNotFoundError("no lsprotocol", name="lsprotocol")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(LanguageServerMissingError) as told:
        make_server()
    assert "septran[lsp]" in told.value.hint
