"""The server for agents, seen by the package's own client: files of one folder, one call a time."""

from __future__ import annotations

import threading
import time

import pytest

from septran.agent.folder import Folder, OutsideFolderError
from septran.agent.server import Calls, NoServerPackageError, ToolFailure, serve
from septran.agent.tools import TOOLS
from tests.twice import with_example

LOGIC = with_example(rows=40, columns=24)
HOSTILE = {
    "crash": "import os; os.kill(os.getpid(), 11)",
    "exit": "import os; os._exit(0)",
    "bomb": "x = bytearray(1 << 40)",
    "loop": "while True: pass",
    "output": 'print(\'{"kind": "answer"}\' * 1000, flush=True)',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("agent")
    inside = home / "files"
    inside.mkdir()
    (inside / "twice.py").write_text(LOGIC, encoding="utf-8")
    (home / "secret.py").write_text(LOGIC, encoding="utf-8")
    (home / "secret.mapping.yaml").write_text("machine: dsa-sim\n", encoding="utf-8")
    (inside / "link.py").symlink_to(home / "secret.py")
    (inside / "out").symlink_to(home)
    (inside / "round.py").symlink_to(inside / "round.py")
    for name, line in HOSTILE.items():
        (inside / f"{name}.py").write_text(f"{line}\n{LOGIC}", encoding="utf-8")
    return inside


@pytest.fixture(scope="module")
def session(served, folder):
    return served(folder, "--seconds", "100")


OUTSIDE = ["../secret.py", "link.py", "out/secret.py", "/etc/hosts.py", "round.py", "twice.txt",
           "none.py", "a\0.py", "..\\secret.py"]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_file_outside_of_the_folder_has_no_name(folder, name):
    with pytest.raises(OutsideFolderError):
        Folder.of(folder).file(name)


@pytest.mark.parametrize(
    "arguments",
    [
        {"logic": "../secret.py"}, {"logic": "/etc/passwd"}, {"logic": "out/secret.py"},
        {"logic": "gemm", "mapping": "../secret.mapping.yaml"},
        {"logic": "gemm", "mapping": "out/secret.mapping.yaml"},
        {"logic": "gemm", "machine": "/etc/machine.yaml"},
        {"logic": "gemm", "mappings": ["dsa-sim", "../secret.mapping.yaml"]},
    ],
)  # fmt: skip
def test_no_argument_leads_out_and_no_process_is_started_for_it(folder, arguments):
    calls = Calls(Folder.of(folder))
    with pytest.raises(ToolFailure, match="no file of the server's folder"):
        calls.ask("explain", **arguments)
    assert not calls._worker.running


def test_a_folder_that_is_none_is_a_mistake(tmp_path):
    with pytest.raises(OutsideFolderError, match="is no folder"):
        Folder.of(tmp_path / "none")


def test_without_the_package_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "mcp.server.mcpserver", None)
    with pytest.raises(NoServerPackageError, match="is not installed"):
        serve(str(tmp_path))


def test_a_client_sees_the_tools_and_their_schema(session):
    found = {tool.name: tool for tool in session.tools()}
    assert found.keys() == TOOLS.keys()
    assert all(tool.description for tool in found.values())
    assert found["propose"].input_schema["required"] == ["logic"]
    assert {o["name"] for o in session.call("list_operators")["operators"]} >= {"gemm", "softmax"}


def test_logic_of_the_folder_is_explained_compiled_and_checked(session):
    explained = session.call("explain", logic="twice.py", machine="dsa-sim")
    assert explained["limited_by"]["name"]
    assert {"key", "values", "now"} <= explained["places"][0].keys()
    assert session.call("compile", logic="twice.py", machine="dsa-sim")["compiled"]
    verdict = session.call("check", logic="twice.py", machine="dsa-sim", cases=2)
    assert verdict["right"]
    profile = session.call("profile", logic="twice.py", machine="dsa-sim")
    assert profile["right"]
    assert profile["profile"]["cycles"] > 0


def test_a_mistake_comes_with_its_line_and_a_hint(session):
    text = "machine: dsa-sim\nrules:\n  - {match: {level: entry}, mems: {X: SPMQ}}\n"
    message = session.failure("compile", logic="twice.py", mapping=text)
    assert "unknown memory 'SPMQ'" in message
    assert ":3:" in message


def test_a_text_may_not_extend_what_is_outside(session):
    for parent in ("../secret.mapping.yaml", "/etc/a.yaml", "out/secret.mapping.yaml"):
        message = session.failure(
            "explain", logic="twice.py", mapping=f"extends: {parent}\nrules: []\n"
        )
        assert "leads out of" in message


def test_a_process_outlives_the_threads_that_ask(folder):
    """Linux would end it with the thread that has started it."""
    calls = Calls(Folder.of(folder))
    for _ in range(2):
        asking = threading.Thread(target=calls.ask, args=("list_machines",))
        asking.start()
        asking.join()
        time.sleep(0.2)
        assert calls._worker._process.poll() is None
    calls.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["crash", "exit", "bomb", "output"])
def test_hostile_logic_costs_one_call(session, name):
    if name == "output":
        assert session.call("explain", logic="output.py", machine="dsa-sim")
        return
    message = session.failure("explain", logic=f"{name}.py", machine="dsa-sim")
    assert {"crash": "SIGSEGV", "exit": "code 0", "bomb": "memory"}[name] in message.replace(
        "MemoryError", "memory"
    )
    assert session.call("explain", logic="twice.py", machine="dsa-sim")


@pytest.mark.slow
def test_an_endless_loop_ends_with_the_time_limit(served, folder):
    session = served(folder, "--seconds", "15")
    assert "no answer after 15 seconds" in session.failure("explain", logic="loop.py")
    assert session.call("list_machines")["machines"]
