"""A header is code: it is compiled and run where it is SepTran's or trusted, and nowhere else."""

from __future__ import annotations

import shutil
import stat
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import septran
from septran.cli import app
from septran.machine.loader import load_machine, mappings_root
from septran.targets.dsa.code.header_files import HeaderFiles
from septran.targets.dsa.code.jit import JitProgram
from septran.targets.dsa.code.native import CProgram
from septran.targets.dsa.code.trust import TrustError, is_trusted, untrusted
from septran.targets.dsa.code.vendor import Vendor

MACHINES = mappings_root() / "machines"
MAPPING = mappings_root() / "dsa-sim.mapping.yaml"
SHAPES = {"M": 16, "N": 16, "K": 16}
SIZES = ("-s", "M=16", "-s", "N=16", "-s", "K=16")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """A user who trusts nothing yet, and has no kernels."""
    monkeypatch.setenv("SEPTRAN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("SEPTRAN_DSA_TRUST", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def copied(tmp_path):
    """A copy of a shipped machine and its header, elsewhere."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("dsa-sim.yaml", "dsa-sim.h"):
        shutil.copy(MACHINES / name, folder / name)
    return folder / "dsa-sim.yaml"


@pytest.fixture
def foreign(copied, tmp_path):
    """One whose header leaves a mark when code of it runs."""
    append(copied, constructor(tmp_path / "ran"))
    return copied


def constructor(mark, name="run_me"):
    return (
        "#include <stdio.h>\n"
        f"__attribute__((constructor)) static void {name}(void)\n"
        f'{{ FILE *mark = fopen("{mark}", "w"); if (mark) fclose(mark); }}\n'
    )


def append(machine, text):
    header = machine.with_name("dsa-sim.h")
    header.write_text(header.read_text() + text)


def run(*words, code=0, **options):
    result = CliRunner().invoke(app, [str(w) for w in words], env={"COLUMNS": "300"}, **options)
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return " ".join(result.output.split())


def kernel_on(machine):
    return septran.compile("gemm", MAPPING, machine=machine, shapes=SHAPES)


def program_on(machine):
    kernel = kernel_on(machine)
    assert kernel.check().right
    return kernel.stages.executable.program


def test_what_is_not_trusted_is_never_run(foreign, tmp_path):
    kernel = kernel_on(foreign)
    assert kernel.check().right
    assert kernel.profile().cycles
    on = ("--on", foreign, "--mapping", MAPPING, *SIZES)
    run("run", "gemm", *on)
    run("explain", "gemm", *on, "--stage", "source")
    run("lint", foreign)
    kernel.save(tmp_path / "kernel.zip")
    septran.load(tmp_path / "kernel.zip")(*kernel.sample().values())
    assert not (tmp_path / "ran").exists()


def test_what_is_trusted_is_run_also_after_it_was_not(foreign, tmp_path):
    assert isinstance(program_on(foreign), JitProgram)
    digest = septran.trust(foreign)
    assert not (tmp_path / "ran").exists()  # trusting alone runs nothing
    assert isinstance(program_on(foreign), CProgram)
    assert (tmp_path / "ran").exists()
    (tmp_path / "cache" / "trusted" / digest).unlink()
    assert isinstance(program_on(foreign), JitProgram)


def test_it_is_in_a_folder_of_the_users_own(foreign, own_folder):
    septran.trust(str(foreign))
    assert stat.S_IMODE((own_folder / "trusted").stat().st_mode) == 0o700
    assert untrusted(load_machine(foreign)) is None
    (own_folder / "trusted").chmod(0o777)
    assert untrusted(load_machine(foreign)) is not None
    with pytest.raises(TrustError, match="others can write to it") as caught:
        septran.trust(foreign)
    assert "SEPTRAN_DSA_TRUST=" in caught.value.hint


def test_what_changes_is_asked_for_again(foreign, tmp_path):
    septran.trust(foreign)
    append(foreign, constructor(tmp_path / "later", "later"))
    assert isinstance(program_on(foreign), JitProgram)
    assert not (tmp_path / "later").exists()


def test_a_copy_of_a_shipped_header_is_trusted_under_any_name(copied):
    header = copied.with_name("dsa-sim.h")
    header.rename(copied.with_name("other.h"))
    copied.write_text(copied.read_text().replace("header: dsa-sim.h", "header: other.h"))
    assert isinstance(program_on(copied), CProgram)
    assert not kernel_remarks(copied)
    assert "C code" not in run("lint", copied)


def test_a_file_that_stands_in_for_a_systems_is_not(copied, tmp_path):
    copied.with_name("stdint.h").write_text(
        "#include_next <stdint.h>\n" + constructor(tmp_path / "ran")
    )
    assert isinstance(program_on(copied), JitProgram)
    assert not (tmp_path / "ran").exists()


def test_only_what_was_looked_at_is_compiled(copied, tmp_path):
    for name in ("stdlib.h", "string.h"):  # which the recorder includes, and the header does not
        copied.with_name(name).write_text(
            f"#include_next <{name}>\n" + constructor(tmp_path / "ran")
        )
    assert isinstance(program_on(copied), CProgram)
    assert not (tmp_path / "ran").exists()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "include",
    ['#include "deep/types.h"', "#  include <deep/types.h>", '%:include "deep/types.h"',
     '/* a */ # /* b */ include /* c */ "deep/types.h"', '#inc\\\nlude "deep/types.h"'],
)  # fmt: skip
def test_trust_holds_for_what_a_header_includes(copied, tmp_path, include):
    (copied.parent / "deep").mkdir()
    types, more = copied.parent / "deep" / "types.h", copied.parent / "more.h"
    types.write_text('#include "../more.h"\n')
    more.write_text("typedef int dsa_word;\n")
    append(copied, f"{include}\ndsa_word a_declaration(dsa_word);\n")
    assert set(Vendor(load_machine(copied)).header_files.contents) == {
        copied.with_name("dsa-sim.h"), types, more
    }  # fmt: skip
    septran.trust(copied)
    assert isinstance(program_on(copied), CProgram)
    more.write_text(more.read_text() + constructor(tmp_path / "ran"))
    assert isinstance(program_on(copied), JitProgram)
    assert not (tmp_path / "ran").exists()


def test_a_name_that_a_macro_makes_is_not_found_by_the_compiler(copied, tmp_path):
    copied.with_name("hidden.h").write_text(constructor(tmp_path / "ran"))
    append(copied, '#define HIDDEN "hidden.h"\n#include HIDDEN\n')
    septran.trust(copied)
    with pytest.raises(septran.SepTranError, match=r"hidden\.h"):
        kernel_on(copied)
    assert not (tmp_path / "ran").exists()


def test_the_environment_trusts_contents(foreign, monkeypatch):
    header = Vendor(load_machine(foreign)).header_files
    for words, trusted in (
        (header.digest, True), (f"1234, {header.digest}", True), ("all", True), ("", False),
        (header.digest[:12], False), ("1234", False),
    ):  # fmt: skip
        monkeypatch.setenv("SEPTRAN_DSA_TRUST", words)
        assert is_trusted(header) is trusted, words


def test_a_digest_tells_places_and_contents_apart(tmp_path):
    def of(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.h").write_text(text)
        return HeaderFiles.of(tmp_path / "a.h").digest

    both = '#include "b.h"\n#include "c.h"\n'
    found = [of(a=both, b="1", c="2"), of(b="2", c="1"), of(b="1", c="1"), of(a="1")]
    assert len(set(found)) == len(found)


def kernel_remarks(machine):
    return [r for r in kernel_on(machine).remarks if r.kind == "unchecked"]


def test_it_is_said_what_was_not_checked_and_how_to_trust(foreign):
    (remark,) = kernel_remarks(foreign)
    assert "whether the header agrees with the machine file was not checked" in remark.message
    assert remark.hint == f"septran trust {foreign}"
    assert remark.where.file == str(foreign)
    on = ("gemm", "--on", foreign, "--mapping", MAPPING, *SIZES)
    for command in (("run",), ("explain", "--format", "full")):  # both generate the code
        told = run(*command, *on)
        assert remark.message in told
        assert remark.hint in told
    noted = run("lint", foreign)
    assert "is C code" in noted
    assert remark.hint in noted
    run("trust", foreign)
    assert not kernel_remarks(foreign)
    assert "C code" not in run("lint", foreign)


def test_without_a_compiler_there_is_nothing_to_trust(foreign, monkeypatch):
    monkeypatch.setenv("SEPTRAN_DSA_CC", "none")
    assert not kernel_remarks(foreign)


@pytest.mark.parametrize(("answer", "kind"), [("y\n", CProgram), ("n\n", JitProgram)])
def test_a_person_is_asked(foreign, monkeypatch, answer, kind):
    monkeypatch.setattr("septran.commands.trust._person", lambda: True)
    text = run("run", "gemm", "--on", foreign, "--mapping", MAPPING, *SIZES, input=answer)
    assert "C code that does not come with SepTran" in text
    assert isinstance(program_on(foreign), kind)


def test_a_machine_without_a_header_has_nothing_to_trust(copied):
    with pytest.raises(TrustError, match="cpu-x86 is no DSA"):
        septran.trust("cpu-x86")
    copied.with_name("dsa-sim.h").unlink()
    assert "no header dsa-sim.h beside" in run("trust", copied, code=1)
    assert untrusted(load_machine(copied)) is None


def test_streams_of_both_routes_are_equal(foreign):
    values = np.arange(256, dtype=np.float32).reshape(16, 16)
    by_llvm = kernel_on(foreign)
    septran.trust(foreign)
    by_c = kernel_on(foreign)
    assert np.array_equal(by_llvm(values, values), by_c(values, values))
    streams = [k.stages.executable.stream().tobytes() for k in (by_llvm, by_c)]
    assert streams[0] == streams[1]


def test_other_figures_need_no_trust():
    machine = load_machine("dsa-sim")
    assert untrusted(replace(machine, clock_mhz=1)) is None
