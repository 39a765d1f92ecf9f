"""Where a new thing goes: each is added to a copy of the package, in as many files as docs say.

The table of `docs/architecture.md` has the number of files; here are the edits, and a program
that uses what was added.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[1]
SIMT = "  simt: {primitive: gemm,"
OPERATOR = '''
"""Twice the elements: Y[i, j] = 2 X[i, j]; X and Y [M, N], any float dtype."""
from septran import task

EXAMPLE = {"M": 64, "N": 48}


@task.define(leaf=True)
def double_rows(Y, X):
    """Some rows, whole."""
    Y[:, :] = X * 2.0


@task.define
def double(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    """Twice each element, some rows at a time."""
    rows = task.tunable("block_rows")
    Yp = task.partition(Y, shape=(rows, Y.shape[1]))
    Xp = task.partition(X, shape=(rows, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(double_rows, Yp[i, 0], Xp[i, 0])
'''
KEY = """
MARKED = Key[bool]("marked", Flag(), "whether a remark is left", False)
KEYS: tuple[Key[Any], ...] = (
    MARKED,"""
TARGET = '''
from dataclasses import dataclass

from septran.errors import TargetError


class NoCodeError(TargetError):
    """No code can be made for it."""

    code = "SEP999"


@dataclass(frozen=True)
class ToyTarget:
    name: str = "toy"

    def lower(self, program):
        raise NoCodeError(f"no code for {program.machine.name} yet", hint="interpret it")

    def build(self, ir, program):
        raise NotImplementedError

    def load(self, folder):
        raise NotImplementedError

    def placed(self, executable, ir, program):
        raise NotImplementedError

    def fingerprint(self):
        return "toy"

    def missing(self):
        return "it generates nothing"


TARGET = ToyTarget()
'''


@dataclass(frozen=True)
class Addition:
    """What is written, by path, and what is run then."""

    row: str
    """The first cell of its row in the table."""
    new: dict[str, str]
    """Files that there are not yet."""
    edits: dict[str, tuple[tuple[str, str], ...]]
    """Of files that there are: a text that is in it once, and what takes its place."""
    program: str


ADDITIONS = {
    "operator": Addition(
        "operator",
        {"septran/operators/double.py": OPERATOR},
        {},
        """
        for machine in ("cpu-x86", "dsa-sim"):
            assert septran.compile("double", machine, shapes={"X": (8, 48)}).check().right
        """,
    ),
    "pass": Addition(
        "pass",
        {
            "septran/tile/passes/leave_note.py": """
from septran.tile.nodes import Remark, TileProgram


def leave_note(program: TileProgram) -> TileProgram:
    \"\"\"Say that it was here.\"\"\"
    return program.remark(Remark("decision", "all", "I was here", passed="leave_note"))
"""
        },
        {
            "septran/tile/passes/__init__.py": (
                (
                    "from septran.tile.passes.schedule.assign_roles",
                    "from septran.tile.passes.leave_note import leave_note\n"
                    "from septran.tile.passes.schedule.assign_roles",
                ),
                ("    fuse_fills,\n", "    fuse_fills,\n    leave_note,\n"),
            )
        },
        """
        found = septran.explain("gemm", "dsa-sim", shapes={"M": 64, "N": 64, "K": 64})
        assert "leave_note" in [step.name for step in found.passes]
        assert "I was here" in str(found)
        """,
    ),
    "instruction on a CPU": Addition(
        "instruction on a CPU",
        {
            "septran/targets/cpu/own_scalar.py": """
from septran.targets.cpu.gemm.scalar import emit_scalar


def emit(context, nodes, private):
    \"\"\"As `scalar` does.\"\"\"
    emit_scalar(context, nodes, private)
"""
        },
        {
            "septran/targets/cpu/emitter_table.py": (
                (
                    "from septran.targets.cpu.context",
                    "from septran.targets.cpu import own_scalar\nfrom septran.targets.cpu.context",
                ),
                (
                    '"scalar": InstructionEmitter',
                    '"own_scalar": InstructionEmitter("gemm", own_scalar.emit),\n    '
                    '"scalar": InstructionEmitter',
                ),
            ),
            "mappings/machines/cpu-x86.yaml": (
                ("instructions:\n", "instructions:\n  own_scalar: {primitive: gemm}\n"),
            ),
        },
        """
        rule = "{match: {primitive: gemm}, binding: {gemm: own_scalar}}"
        mapping = f"extends: cpu-x86\\nrules:\\n  - {rule}"
        kernel = septran.compile("gemm", mapping, shapes={"M": 9, "N": 17, "K": 5})
        assert "by own_scalar" in str(kernel.stages.tile_program)
        assert kernel.check().right
        """,
    ),
    "instruction on CUDA": Addition(
        "instruction on CUDA",
        {
            "septran/targets/cuda/own_simt.py": """
from septran.targets.cuda.gemm.simt import demand_simt as demand
from septran.targets.cuda.gemm.simt import emit_simt


def emit(context, node):
    \"\"\"As `simt` does.\"\"\"
    emit_simt(context, node)
"""
        },
        {
            "septran/targets/cuda/emitter_table.py": (
                (
                    "from septran.targets.cuda.context",
                    "from septran.targets.cuda import own_simt\nfrom septran.targets.cuda.context",
                ),
                ('"simt": emit_simt,', '"simt": emit_simt, "own_simt": own_simt.emit,'),
                ('"simt": demand_simt,', '"simt": demand_simt, "own_simt": own_simt.demand,'),
            ),
            "mappings/machines/nvidia-h200.yaml": (
                (SIMT, SIMT.replace("simt", "own_simt")),
                ('  "*_simt": simt\n', '  "*_simt": own_simt\n  simt: own_simt\n'),
            ),
        },
        """
        found = septran.explain("gemm", "nvidia-h200", shapes={"M": 64, "N": 64, "K": 64})
        assert "own_simt" in str(found.tile_program)
        assert "__global__" in found.text("source")
        """,
    ),
    "key of a mapping": Addition(
        "key of a mapping",
        {},
        {
            "septran/mapping/keys.py": (("\nKEYS: tuple[Key[Any], ...] = (", KEY),),
            "septran/tile/passes/copies/fuse_fills.py": (
                (
                    "    return replace(program, body=_fuse(",
                    "    from septran.mapping.keys import MARKED\n"
                    "    from septran.tile.nodes import Remark\n"
                    "    for asked in program.requests:\n"
                    "        if asked.get(MARKED):\n"
                    "            program = program.remark(\n"
                    "                Remark('decision', asked.task, 'marked', passed='own')\n"
                    "            )\n"
                    "    return replace(program, body=_fuse(",
                ),
            ),
        },
        """
        from septran.mapping.schema import mapping_schema

        assert "whether a remark is left" in str(mapping_schema())
        own = "extends: dsa-sim\\nrules:\\n  - {match: {level: entry}, marked: true}\\n"
        shapes = {"M": 64, "N": 64, "K": 64}
        assert "marked" in [r.message for r in septran.explain("gemm", own, shapes=shapes).remarks]
        usual = septran.explain("gemm", "dsa-sim", shapes=shapes)
        assert "marked" not in [r.message for r in usual.remarks]
        """,
    ),
    "element type": Addition(
        "element type",
        {},
        {
            "septran/dtypes.py": (
                (
                    '        Dtype("float8_e4m3fn",',
                    '        Dtype("float8_e5m2", "float", 8, 5, 2, foreign=True),\n'
                    '        Dtype("float8_e4m3fn",',
                ),
            ),
            "septran/task/__init__.py": (
                (
                    'float8_e4m3fn = "float8_e4m3fn"\n',
                    'float8_e4m3fn = "float8_e4m3fn"\nfloat8_e5m2 = "float8_e5m2"\n',
                ),
                ('"float8_e4m3fn", "float16"', '"float8_e4m3fn", "float8_e5m2", "float16"'),
            ),
        },
        """
        import ml_dtypes, numpy as np
        from septran.dtypes import numpy_dtype, promote, unit_roundoff

        assert promote("float8_e5m2", "float8_e4m3fn") == "float16"
        assert unit_roundoff("float8_e5m2") == 2.0**-3
        program = septran.explain(
            "elementwise", "cpu-x86", shapes={"X": (4, 8)}, dtypes="float8_e5m2"
        ).tile_program
        assert {b.dtype for b in program.buffers} == {"float8_e5m2"}
        assert numpy_dtype("float8_e5m2") == np.dtype(ml_dtypes.float8_e5m2)
        x = np.arange(-16, 16).reshape(4, 8).astype(ml_dtypes.float8_e5m2)
        wide = x.astype(np.float32)
        found = septran.interpret(program, {"X": x})["Y"].astype(np.float32)
        exact = (wide / (1 + np.exp(-wide))).astype(ml_dtypes.float8_e5m2).astype(np.float32)
        assert np.array_equal(found, exact), (found, exact)
        """,
    ),
    "view": Addition(
        "view",
        {
            "septran/views/text/edges.py": """
def edges_text(ledger):
    \"\"\"The edges of a ledger, a line each.\"\"\"
    return "\\n".join(ledger.edges)
"""
        },
        {
            "septran/views/table.py": (
                (
                    '"html": "panels.ledger.ledger_html",',
                    '"html": "panels.ledger.ledger_html", "edges": "text.edges.edges_text",',
                ),
            )
        },
        """
        from septran.stage import view

        ledger = septran.explain("gemm", "dsa-sim", shapes={"M": 64, "N": 64, "K": 64}).ledger
        assert view(ledger, "edges").splitlines() == list(ledger.edges)
        """,
    ),
    "target": Addition(
        "target",
        {
            "septran/targets/toy/__init__.py": '"""A target that refuses politely."""\n',
            "septran/targets/toy/backend.py": "from septran.backends import Backend\n\n"
            'BACKEND = Backend("toy", keys=frozenset({"raster"}))\n',
            "septran/targets/toy/target.py": TARGET,
        },
        {},
        """
        from pathlib import Path

        from septran.errors import TargetError
        from septran.machine.loader import mappings_root

        text = (mappings_root() / "machines" / "dsa-sim.yaml").read_text()
        machine = Path("toy.yaml")
        machine.write_text(text.replace("backend: dsa", "backend: toy"))
        asked = {"machine": str(machine), "shapes": {"M": 64, "N": 64, "K": 64}}
        found = septran.explain("gemm", "dsa-sim", **asked)
        assert found.tile_program.machine.backend == "toy"
        try:
            septran.compile("gemm", "dsa-sim", **asked)
        except TargetError as error:
            assert "no code for" in str(error) and error.hint == "interpret it"
        else:
            raise AssertionError("it made code")
        machine.write_text(text.replace("backend: dsa", "backend: toi"))
        try:
            septran.explain("gemm", "dsa-sim", **asked)
        except septran.SepTranError as error:
            assert "toi" in str(error) and "toy" in str(error) + str(error.hint)
        else:
            raise AssertionError("an unknown backend was taken")
        """,
    ),
}


def files_by_row():
    """The number of files of each row of the table."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("## Where a new thing goes")[2].partition("\n## ")[0]
    return {
        name: int(count)
        for name, count in re.findall(r"^\| ([^|]+?) \| (\d+)[^|]*\|", section, re.M)
    }


def test_the_files_that_the_page_names_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    package = ROOT / "septran"
    within = (ROOT, package, package / "targets", package / "targets/cpu", package / "mapping")
    within += tuple(package / "targets" / name for name in ("cuda", "lower"))
    named = set(re.findall(r"`([\w./-]+\.(?:py|c|md|toml|yaml))`", text))
    assert len(named) > 30
    made = {"backend.py", "target.py"}  # of any target
    assert [n for n in sorted(named - made) if not any((w / n).exists() for w in within)] == []


def test_the_table_says_how_many_files_each_addition_touches():
    said = files_by_row()
    assert {a.row: len(a.new) + len(a.edits) for a in ADDITIONS.values()} == {
        a.row: said[a.row] for a in ADDITIONS.values()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ADDITIONS)
def test_what_is_added_as_the_table_says_works(name, tmp_path):
    addition = ADDITIONS[name]
    for folder in ("septran", "mappings"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for path, text in addition.new.items():
        file = tmp_path / path
        assert not file.exists()
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.lstrip("\n"), encoding="utf-8")
    for path, changes in addition.edits.items():
        text = (tmp_path / path).read_text(encoding="utf-8")
        for old, new in changes:
            assert text.count(old) == 1, (path, old)
            text = text.replace(old, new)
        (tmp_path / path).write_text(text, encoding="utf-8")
    program = "import septran\n" + dedent(addition.program)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True,
        timeout=300, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
