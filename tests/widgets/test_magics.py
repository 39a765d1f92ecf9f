"""Magics without a browser: a shell of IPython."""

from __future__ import annotations

import atexit
import sys

import pytest

pytest.importorskip("IPython")
pytest.importorskip("anywidget")

LOGIC = '''%%logic {}
from septran import task

@task.define(leaf=True)
def twice_tile(Y, X):
    Y[:] = X + X

@task.define
def twice(Y: task.Tensor["N"], X: task.Tensor["N"]):
    """Y = 2 X."""
    b = task.tunable("block_N")
    Yp = task.partition(Y, shape=(b,))
    Xp = task.partition(X, shape=(b,))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(twice_tile, Yp[i], Xp[i])
'''


@pytest.fixture
def shell(tmp_path, monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # a shell replaces it
    made = InteractiveShell()
    made.history_manager.enabled = False
    made.run_line_magic("load_ext", "septran")
    yield made
    # It looks for garbage among all that earlier tests have left: 8 s a test in a long run.
    monkeypatch.setattr(made.displayhook, "flush", lambda: None)
    made.history_manager.end_session()
    made.atexit_operations()
    atexit.unregister(made.atexit_operations)  # else it complains at exit that all is gone


def run(shell, cell):
    """The result of a cell; raises what it raised."""
    found = shell.run_cell(cell, store_history=False)
    found.raise_error()
    return found.result


def test_a_logic_cell_defines_tasks_and_names_the_entry(shell):
    assert run(shell, LOGIC.format("mine")).name == "twice"
    assert shell.user_ns["mine"] is shell.user_ns["twice"]
    explanation = run(shell, "%septran explain mine --on dsa-sim -s N=4096")
    assert explanation.mapping.machine.name == "dsa-sim"


def test_mistakes_of_a_logic_name_the_cells_line(shell, capsys):
    run(shell, LOGIC.format(""))
    wrong = (
        '%%logic\n\n@task.define\ndef bad(Y: task.Tensor["N"]):\n    task.launch(twice_tile, Y)\n'
    )
    run(shell, wrong)
    with pytest.raises(Exception, match=r"cell In\[\d+\]>:5:5: twice_tile takes 2 tensors"):
        run(shell, "%septran explain bad -s N=32")
    told = capsys.readouterr().out
    assert "task.launch(twice_tile, Y)" in told
    assert "Traceback" not in told


def test_a_mapping_cell_is_used_by_its_name(shell):
    run(shell, LOGIC.format("mine"))
    run(shell, "%%mapping fast\nextends: dsa-sim.mapping.yaml\ntunables:\n  block_N: 256\n")
    explanation = run(shell, "%septran explain mine --on fast -s N=4096")
    tunables = {n: s.value for i in explanation.mapping.instances for n, s in i.tunables.items()}
    assert tunables == {"block_N": 256}
    assert run(shell, "%septran check mine --on fast -s N=4096")


def test_mistakes_of_a_mapping_name_the_cells_line(shell):
    cell = (
        "%%mapping m\nextends: dsa-sim.mapping.yaml\n"
        "rules:\n  - match: {level: entry}\n    proc: HOAST\n"
    )
    with pytest.raises(Exception, match=r"cell In\[\d+\]>:5:11: unknown processor 'HOAST'"):
        run(shell, cell)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%septran explain", "required: logic"),
        ("%septran ponder gemm", "invalid choice"),
        ("%septran explain gemm -s N", "not NAME=VALUE"),
        ("%%logic\nx = 1\n", "defines no task"),
        ("%%logic two words\nx = 1\n", "takes one name"),
    ],
)
def test_wrong_words_are_explained(shell, line, said, capsys):
    with pytest.raises(Exception, match=said):
        run(shell, line)


def test_explore_and_edit_give_widgets(shell):
    from septran_widgets.editor import Editor
    from septran_widgets.explorer import Explorer

    assert isinstance(shell.run_line_magic("septran", "explore gemm --on dsa-sim;"), Explorer)
    assert isinstance(shell.run_line_magic("septran", "edit gemm --on dsa-sim"), Editor)


def test_a_reason_leads_to_the_lines_of_both_cells(shell):
    from septran.views.text.origin_text import origin_parts

    run(shell, LOGIC.format("mine"))
    run(
        shell,
        "%%mapping own\nmachine: dsa-sim\nrules:\n"
        '  - {match: {level: entry}, proc: HOST, mems: {"*": GLOBAL}}\n'
        "  - {match: {task: twice_tile}, proc: CORE, mems: {X: SPM, Y: SPM}}\n"
        "tunables: {block_N: 256}\n",
    )
    explanation = run(shell, "%septran explain mine --on own -s N=4096")
    (copy, *_) = [m for m in explanation.movements if m.kind == "copy"]
    parts = origin_parts(str(copy.origin))
    launch = next(n for n, line in enumerate(LOGIC.splitlines(), 1) if "task.launch" in line)
    assert any(
        k.startswith("logic:<cell In[") and k.endswith(f"]>:{launch}") for k in parts["keys"]
    )
    assert "mapping:5" in parts["keys"]
    assert all("<cell In[" in place for place in parts["places"])


def test_explain_stays_a_function_when_views_are_imported():
    import inspect

    import septran

    septran.explain("gemm", "cpu-x86")
    import septran.views.live as live_module
    from septran import explain

    assert callable(live_module.explore)
    assert explain is septran.explain
    assert list(inspect.signature(septran.explain).parameters)[:2] == ["logic", "mapping"]


PLAIN = "import septran\nplain = 'machine: cpu-x86\\nrules: [{mems: {\"*\": %s}}]\\n'"


def test_a_mistake_is_its_own_lines_in_a_notebook(shell, capsys):
    shell.set_custom_exc((), None)  # the extension's, of which none is needed
    shell.run_cell(PLAIN % "SHRED")
    shell.run_cell("septran.explain('gemm', plain)", store_history=False)
    lines = capsys.readouterr().out.strip().splitlines()
    assert "<mapping plain>:2:22: unknown memory 'SHRED'" in lines[0]
    assert len(lines) <= 5


def test_a_cell_is_called_by_its_number(shell, monkeypatch):
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)  # there is one in a notebook
    shell.run_cell(LOGIC.format("").partition("\n")[2], store_history=True)
    explanation = run(shell, "%septran explain twice --on dsa-sim -s N=4096")
    assert "# <cell In[1]>:" in str(explanation)


def test_two_texts_of_one_variable_have_two_names(shell):
    shell.run_cell(f"{PLAIN % 'DRAM'}\none = septran.load_mapping(plain)")
    shell.run_cell(f"{PLAIN % 'L2'}\ntwo = septran.load_mapping(plain)")
    names = [shell.user_ns[name].file for name in ("one", "two")]
    assert names[0] != names[1]
    assert all(name.startswith("<mapping plain") for name in names)
