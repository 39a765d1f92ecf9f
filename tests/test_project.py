"""What holds for the project as a whole: layers, imports, packaging, what the code never does."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import septran
from septran.backends import backends

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "septran"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SOURCES = sorted(PACKAGE.rglob("*.py"))


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this Python beside the checkout, as a program would."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, text=True, capture_output=True
    )


def cpu_seconds(*arguments: str) -> float:
    """Processor time of a run, which other programs on the machine hardly change."""
    before = os.times()
    python(*arguments).check_returncode()
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def test_imports_go_downwards():
    code = (
        "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    )
    result = python("-c", code)
    assert result.returncode == 0, result.stdout + result.stderr


def test_import_is_quick():
    bare = min(cpu_seconds("-c", "pass") for _ in range(5))
    assert min(cpu_seconds("-c", "import septran") for _ in range(5)) - bare < 0.3


def test_import_loads_nothing_heavy():
    heavy = ("tvm", "torch", "pandas", "matplotlib", "IPython", "graphviz", "pydantic", "typer")
    code = f"import sys, septran; print([m for m in {heavy} if m in sys.modules])"
    assert python("-c", code).stdout.strip() == "[]"


def test_the_command_line_starts_without_tvm_and_torch():
    code = (
        "import sys\nfrom septran.cli import app\n"
        "try: app(['explain', '--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('tvm', 'torch', 'pandas', 'numpy') if m in sys.modules])"
    )
    assert python("-c", code).stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", septran.__all__)
def test_public_names_are_documented(name):
    value = getattr(septran, name)
    assert name == "__version__" or value.__doc__


def test_public_names_are_imported_for_type_checkers_too():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If))
    imported = {alias.name for n in block.body for alias in n.names}  # type: ignore[attr-defined]
    assert imported == set(septran.__all__) - {"__version__"}


def imported_by(path: Path) -> set[str]:
    """Top-level packages that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    return found


def reaches_no_network(path: Path) -> bool:
    """Whether a file's sockets are a pair between a process and its child, and no others.

    The pair has no address, so nobody can connect to it; a pipe could not pass a file on.
    """
    return all(map(_harmless, ast.walk(ast.parse(path.read_text(encoding="utf-8")))))


def _harmless(node: ast.AST) -> bool:
    match node:
        case ast.ImportFrom(module="socket"):
            return False
        case ast.Import(names=names):
            return all(alias.name != "socket" or alias.asname is None for alias in names)
        case ast.Attribute(value=ast.Name("socket"), attr=name):
            return name in ("AF_UNIX", "socket", "socketpair", "send_fds", "recv_fds")
        case ast.Attribute(attr=name):
            return name not in ("connect", "bind", "listen", "accept")
        case ast.Call(func=ast.Attribute(ast.Name("socket"), "socketpair")):
            return ast.unparse(node) == "socket.socketpair(socket.AF_UNIX)"
        case ast.Call(func=ast.Attribute(ast.Name("socket"), "socket")):
            return not node.args and [k.arg for k in node.keywords] == ["fileno"]
    return True


@pytest.mark.parametrize(
    ("source", "harmless"),
    [
        ("import socket\na, b = socket.socketpair(socket.AF_UNIX)", True),
        ("import socket\ns = socket.socket(fileno=3)", True),
        ("import socket\na, b = socket.socketpair()", False),
        ("import socket\ns = socket.socket()", False),
        ("import socket\ns = socket.create_connection(('a', 1))", False),
        ("import socket\ns = socket.socket(fileno=3)\ns.connect('a')", False),
        ("import socket as s\ns.create_connection(('a', 1))", False),
        ("from socket import create_connection", False),
    ],
)
def test_which_sockets_are_harmless(tmp_path, source, harmless):
    path = tmp_path / "source.py"
    path.write_text(source, encoding="utf-8")
    assert reaches_no_network(path) == harmless


def test_nothing_is_unpickled_sent_or_passed_to_a_shell():
    assert {str(p.relative_to(ROOT)): found for p in SOURCES if (found := unsafe(p))} == {}


def unsafe(path: Path) -> list[str]:
    """What a file imports or calls that no file of the package is to."""
    banned = {
        "pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib",
        "http", "urllib", "requests", "ftplib", "telnetlib",
    }  # fmt: skip
    # Workers of a cluster unpickle what a search sends them, as its library does by itself.
    if path.parent == ROOT / "septran/tuning/cluster":
        banned -= {"pickle"}
    source = path.read_text(encoding="utf-8")
    found = []
    if re.search(rf"\b({'|'.join(sorted(banned))}|socket)\b", source):  # a walk takes long
        imported = imported_by(path)
        found += sorted(imported & banned)
        if "socket" in imported and path.parent != ROOT / "septran/emulator":
            found.append("socket")
        if "socket" in imported and not reaches_no_network(path):
            found.append("a network")
    if re.search(r"\b(system|popen|exec|getoutput|shell)\b", source):
        found += _unsafe_calls(path, source)
    return found


def _unsafe_calls(path: Path, source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            # A template of its own with numbers filled in: no name is in it.
            own = (path.name, called) == ("calls.py", "exec")
            if called in ("os.system", "os.popen", "exec", "subprocess.getoutput") and not own:
                yield called
            for keyword in node.keywords:
                if (keyword.arg, ast.unparse(keyword.value)) == ("shell", "True"):
                    yield "a shell"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import os\nos.popen('ls')", ["os.popen"]),
        ("import subprocess as s\ns.run('ls', shell=True)", ["a shell"]),
        ("def f():\n    from urllib.request import urlopen", ["urllib"]),
        ("import socket", ["socket"]),
        ("exec('1')", ["exec"]),
        ("def execute(): return 'http'", []),
    ],
)
def test_what_is_unsafe_is_found(tmp_path, source, found):
    path = tmp_path / "source.py"
    path.write_text(source, encoding="utf-8")
    assert unsafe(path) == found


def test_the_version_is_said_once_more_and_the_same():
    assert septran.__version__ == PROJECT["project"]["version"]


def test_conda_gets_the_same_as_pip():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    listed = list(environment["dependencies"])
    listed = [e for e in listed if isinstance(e, str)] + listed[-1]["pip"]
    names = {
        "graphviz": "dot",
        "ml_dtypes": "ml-dtypes",
        "matplotlib-base": "matplotlib",
        "python-graphviz": "graphviz",
    }
    found = {}
    for entry in listed:
        name = entry.split(">")[0].split("=")[0].split("<")[0]
        found[names.get(name, name).lower()] = entry[len(name) :]
    project = PROJECT["project"]
    wanted = [*project["dependencies"]]
    for extra in ("notebook", "test", "lint"):
        wanted += project["optional-dependencies"][extra]
    for requirement in wanted:
        name = requirement.split(">")[0].split("=")[0].split("<")[0]
        assert found.get(name.lower()) == requirement[len(name) :], requirement


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    pytest.importorskip("hatchling", reason="the build backend is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    result = python("-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    assert result.returncode == 0, result.stderr
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_holds_mappings_and_notebooks(wheel):
    names = set(wheel.namelist())
    for kind, target in (("mappings", "septran/_mappings"), ("notebooks", "septran/_notebooks")):
        own = [p for p in (ROOT / kind).rglob("*") if p.suffix in (".yaml", ".ipynb")]
        assert own
        own = [p for p in own if ".ipynb_checkpoints" not in p.parts]
        missing = [
            p for p in own if f"{target}/{p.relative_to(ROOT / kind).as_posix()}" not in names
        ]
        assert missing == []
    assert "septran/py.typed" in names
    assert "septran_widgets/__init__.py" in names


def test_the_wheel_holds_nothing_else(wheel):
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    own = {"septran", "septran_compiler", "septran_widgets"}
    assert tops == {*own, f"septran-{septran.__version__}.dist-info"}
    assert not [name for name in wheel.namelist() if "__pycache__" in name or "tests" in name]


def test_an_installed_wheel_finds_its_mappings(wheel, tmp_path):
    wheel.extractall(tmp_path)
    code = "import septran; print(septran.load_mapping('cpu-x86').file, septran.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, text=True, capture_output=True
    )
    assert result.returncode == 0, result.stderr
    assert str(tmp_path / "septran") in result.stdout
    assert "_mappings" in result.stdout


def test_a_folder_holds_what_one_can_look_over():
    """Operators are one file each, by design; of anything else about twenty can be taken in."""
    modules = Counter(path.parent for path in (ROOT / "septran").rglob("*.py"))
    crowded = {str(f.relative_to(ROOT)): n for f, n in modules.items() if n > 22}
    assert crowded.keys() <= {"septran/operators"}


ONE_A_TARGET = {"Context", "Storage", "Access"}
"""Each target's own, of one meaning: the state of a lowering, a buffer, and a region of one."""


def test_a_public_class_has_a_name_of_its_own():
    """A name in a message, a trace or the API's pages means one thing in the whole project."""
    homes: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path.relative_to(PACKAGE).as_posix())
    twice = {name: found for name, found in homes.items() if len(found) > 1}
    assert twice.keys() <= ONE_A_TARGET, twice
    assert all(home.startswith("targets/") for name in ONE_A_TARGET for home in homes[name])


TARGETS = "|".join(backends())
MAY_NAME_A_TARGET = {
    "__init__.py": "public names of the package",
    "commands/trust.py": "a command for the headers of one target",
    "fuzz/executors.py": "CPU code for vectors of the other width",
    "targets/tilelang/": "a text of GPUs' programs, of blocks with as many threads as in CUDA",
    "views/": "views of what one target alone gives; views/table.py says which there are",
}
"""Files and folders of the package, and why."""


def targets_named_by(source: str) -> set[str]:
    """Targets whose modules are imported, or that a backend is compared with."""
    found: set[str] = set()
    if not re.search(rf"['\"]({TARGETS})['\"]|targets\b", source):
        return found  # most files, and a walk takes long
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
            if any(re.search(r"backend('\])?$", side) for side in sides):
                found |= set(re.findall(rf"'({TARGETS})'", " ".join(sides)))
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= set(re.findall(rf"septran\.targets\.({TARGETS})\b", ast.unparse(node)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(re.findall(rf"^septran\.targets\.({TARGETS})\b", node.value))
    return found


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("from septran.targets.cpu.simd import AVX2", {"cpu"}),
        ("import septran.targets.cuda.target", {"cuda"}),
        ("if machine.backend == 'dsa': pass", {"dsa"}),
        ("if backend in ('cpu', 'dsa'): pass", {"cpu", "dsa"}),
        ("HOMES = {'trust': 'septran.targets.dsa.code.trust'}", {"dsa"}),
        ("from septran.targets.lower import writer", set()),
        ("x = torch.zeros(3, device='cuda')", set()),
        ("here = backend_of(machine.backend).device == 'cpu'", set()),
    ],
)
def test_what_names_a_target(source, named):
    assert targets_named_by(source) == named


def test_only_a_targets_own_folder_names_it():
    named = {}
    for path in SOURCES:
        file = path.relative_to(PACKAGE).as_posix()
        own = re.match(rf"targets/({TARGETS})/", file)
        found = targets_named_by(path.read_text(encoding="utf-8"))
        if found and not own:
            named[file] = found
    listed = tuple(MAY_NAME_A_TARGET)
    assert not [file for file in named if not file.startswith(listed)]
    assert not [x for x in listed if not any(file.startswith(x) for file in named)], "needless"
