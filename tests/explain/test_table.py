"""The table of views names classes and functions that exist, and is all that finds them."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import septran
from septran.stage import Displayable, Stage, view
from septran.views import table

PACKAGE = Path(septran.__file__).parent


def class_of(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("path", table.VIEWS)
def test_every_class_and_every_view_of_it_exist(path):
    kind = class_of(path)
    assert issubclass(kind, Displayable) <= (
        "html" in table.VIEWS[path] or "_repr_mimebundle_" in vars(kind)
    )
    assert issubclass(kind, Stage) <= ({"data", "drawing"} <= set(table.VIEWS[path]))
    for name in table.VIEWS[path]:
        assert callable(table.find_view(kind.__new__(kind), name))


def test_an_object_finds_its_view_where_only_its_own_module_is_imported():
    code = (
        "import sys\n"
        "from septran.tile.ledger import Ledger\n"
        "assert not [name for name in sys.modules if name.startswith('septran.views')]\n"
        "print(Ledger('none', (), 'GLOBAL', 0, (), 0)._repr_mimebundle_()['text/html'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True
    )
    assert "copies nothing" in done.stdout


def test_what_has_no_view_says_so():
    with pytest.raises(TypeError, match="int has no view called html"):
        view(1, "html")


def test_no_module_below_reaches_for_one_of_views():
    below = [p for p in PACKAGE.rglob("*.py") if "views" not in p.relative_to(PACKAGE).parts]
    allowed = {"__init__.py", "agent", "commands", "fuzz", "lessons", "lsp", "matrix.py"}
    found = [
        p.relative_to(PACKAGE)
        for p in below
        if p.relative_to(PACKAGE).parts[0] not in allowed and "septran.views" in p.read_text()
    ]
    assert not found
