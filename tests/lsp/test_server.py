"""The language server, by a client of its own over standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = """# logic: gemm M=128 N=128 K=256
extends: dsa-sim
rules:
  - {match: {task: gemm_block}, pipeline: 3}
"""


class Client:
    """Asks, and keeps what it is told meanwhile."""

    def __init__(self, folder, *options):
        code = "from septran.cli import main; main()"
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "lsp", *options], cwd=folder, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        self.number = 0
        self.folder = folder
        self.ask("initialize", processId=None, rootUri=folder.as_uri(), capabilities={})
        self.tell("initialized")

    def _send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def _read(self):
        length = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the server has ended"
        return json.loads(self.process.stdout.read(length))

    def ask(self, method, **params):
        self.number += 1
        self._send({"id": self.number, "method": method, "params": params})
        while (answer := self._read()).get("id") != self.number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def tell(self, method, **params):
        self._send({"method": method, "params": params})

    def mistakes(self):
        while (told := self._read()).get("method") != "textDocument/publishDiagnostics":
            pass
        return told["params"]["diagnostics"]

    def open(self, name, text):
        self.uri = (self.folder / name).as_uri()
        (self.folder / name).write_text(text, "utf-8")
        document = {"uri": self.uri, "languageId": "yaml", "version": 1, "text": text}
        self.tell("textDocument/didOpen", textDocument=document)
        return self.mistakes()

    def change(self, text):
        document = {"uri": self.uri, "version": 2}
        self.tell("textDocument/didChange", textDocument=document, contentChanges=[{"text": text}])
        return self.mistakes()

    def at(self, what, line, character):
        place = {"line": line, "character": character}
        return self.ask(f"textDocument/{what}", textDocument={"uri": self.uri}, position=place)


@pytest.fixture
def client(tmp_path):
    pytest.importorskip("pygls", reason="septran[lsp] is not installed")
    opened = []

    def start(*options):
        opened.append(Client(tmp_path, *options))
        return opened[-1]

    yield start
    for one in opened:
        one.ask("shutdown")
        one.tell("exit")
        one.process.wait(20)
        one.process.stdin.close()
        one.process.stdout.close()


def test_a_mapping_is_written(client):
    editor = client()
    assert editor.open("mine.mapping.yaml", TEXT) == []

    wrong = TEXT.replace("gemm_block}", "gemm_block}, mems: {A: SPMX}")
    (mistake,) = editor.change(wrong)
    column = wrong.splitlines()[3].index("SPMX")
    assert mistake["code"] == "SEP306"
    assert "did you mean 'SPM'?" in mistake["message"]
    assert mistake["range"]["start"] == {"line": 3, "character": column}
    assert mistake["range"]["end"] == {"line": 3, "character": column + 4}
    assert editor.change(TEXT) == []

    found = editor.change(TEXT + "  - {mems: {A: S") and editor.at("completion", 4, 16)
    assert {"SPM", "ACC"} <= {one["label"] for one in found}

    editor.change(TEXT)
    said = editor.at("hover", 3, 33)["contents"]["value"]
    assert "`pipeline`: " in said
    assert "for `gemm/gemm_core/gemm_block`" in said
    assert "predicted" in said
    (place,) = editor.at("definition", 3, 10)
    assert place["uri"].endswith("septran/operators/gemm.py")


def test_a_machine_file_is_checked(client):
    text = (ROOT / "mappings" / "machines" / "dsa-sim.yaml").read_text("utf-8")
    editor = client()
    assert editor.open("own.yaml", text) == []
    found = editor.change(text.replace("capacity: ", "capacitee: ", 1))
    assert any("capacity" in mistake["message"] for mistake in found)


def test_logic_of_a_file_runs_only_where_it_may(client, tmp_path):
    ran = tmp_path / "ran"
    logic = (ROOT / "septran" / "operators" / "softmax.py").read_text("utf-8")
    note = f"\nfrom pathlib import Path\n\nPath({str(ran)!r}).touch()\n"
    (tmp_path / "mine.py").write_text(logic + note, "utf-8")
    text = "# logic: mine.py M=64 N=64\nextends: dsa-sim\n"
    assert client().open("mine.mapping.yaml", text) == []
    assert not ran.exists()
    client("--run-logic").open("mine.mapping.yaml", text)
    assert ran.exists()
