"""Which C compiler is taken, and what is said when it fails."""

from __future__ import annotations

import ctypes
import gc
import os
import stat

import pytest

from septran.targets.dsa.code import toolchain
from septran.targets.dsa.code.native import compile_code, recorder
from septran.targets.dsa.code.recorder import TAKE
from septran.targets.dsa.code.toolchain import CompileError, compiler, run_compiler


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A PATH with programs of these names only."""

    def make(*names, says="", status=0):
        for name in names:
            file = tmp_path / name
            file.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path))
        for variable in ("CC", "SEPTRAN_DSA_CC"):
            monkeypatch.delenv(variable, raising=False)

    return make


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (("cc", "gcc", "clang", "zig"), ("cc",)), (("gcc", "clang"), ("gcc",)),
        (("clang", "zig"), ("clang",)), (("zig",), ("zig", "cc")), ((), None),
    ],
)  # fmt: skip
def test_the_first_that_is_found(tools, names, taken):
    tools(*names)
    assert compiler() == taken


def test_what_is_asked_for_comes_first(tools, monkeypatch):
    tools("cc", "gcc", "clang")
    monkeypatch.setenv("CC", "clang -m64 '-DX=a b'")
    assert compiler() == ("clang", "-m64", "-DX=a b")
    monkeypatch.setenv("CC", "nowhere")
    assert compiler() == ("cc",)
    monkeypatch.setenv("SEPTRAN_DSA_CC", "gcc")
    assert compiler() == ("gcc",)
    monkeypatch.setenv("SEPTRAN_DSA_CC", "none")
    assert compiler() is None


def test_without_one_there_is_a_hint(tools):
    tools()
    with pytest.raises(CompileError, match="there is no C compiler"):
        run_compiler("this", ())


def test_what_it_said_is_shown(tools):
    tools("cc", says="vendor.h:3: error: expected ;", status=1)
    with pytest.raises(CompileError, match=r"cc refused this:\nvendor\.h:3: error: expected ;"):
        run_compiler("this", ("x.c",))


def test_one_that_hangs_is_ended(tools, monkeypatch):
    tools("cc")
    monkeypatch.setattr(toolchain, "SECONDS", 0.2)
    file = os.path.join(os.environ["PATH"], "cc")  # noqa: PTH118
    with open(file, "w") as text:  # noqa: PTH123
        text.write("#!/bin/sh\nexec /bin/sleep 60\n")
    with pytest.raises(CompileError, match="did not compile this"):
        run_compiler("this", ())


def test_one_that_cannot_be_run(tools, tmp_path):
    tools("cc")
    (tmp_path / "cc").write_text("no program at all")
    with pytest.raises(CompileError, match="did not compile this"):
        run_compiler("this", ())


def test_the_recorder_is_compiled_once(routes, program, monkeypatch):
    first = recorder(routes.vendor)
    asked = []

    def count(what, *options):
        asked.append(what)
        return run_compiler(what, *options)

    monkeypatch.setattr("septran.targets.dsa.code.native.run_compiler", count)
    for name in ("one", "two"):
        made = program(name)
        made.command("sync")
        compile_code(routes.vendor, routes.code(made), 1, ())
    assert recorder(routes.vendor) == first
    assert asked == ["the C of one", "the C of two"]


def test_the_folder_and_the_records_of_a_kernel_go_with_it(program, routes):
    """A process that compiles thousands of kernels fills neither the disk nor the memory."""
    made = program()
    made.command("sync")
    compiled = compile_code(routes.vendor, routes.code(made), 1, ())
    assert len(compiled(0, ())) == 1
    folder, take, first = compiled.path.parent, compiled.library[TAKE], ctypes.c_void_p()
    assert folder.exists()
    take(ctypes.byref(first))
    assert first.value
    del compiled
    gc.collect()
    assert not folder.exists()
    take(ctypes.byref(first))
    assert not first.value
