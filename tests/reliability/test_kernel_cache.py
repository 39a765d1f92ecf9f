"""Damage to what real kernels leave in the cache: always compiled again, never loaded."""

from __future__ import annotations

import json
import resource

import numpy as np
import pytest

import septran
from septran import operators
from septran.machine.loader import mappings_root
from septran.runtime import cache as cache_module
from septran.runtime.cache import Cache, CacheWarning
from septran.targets.cpu.run import guards
from septran.targets.cpu.run.build import CpuExecutable
from septran.targets.cpu.target import CpuTarget

X = np.random.default_rng(0).standard_normal((5, 19)).astype("f4")


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("SEPTRAN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SEPTRAN_CACHE", "1")
    monkeypatch.setattr(cache_module, "_warned", set())
    return tmp_path / "cache"


@pytest.fixture
def builds(monkeypatch):
    """How often machine code was made."""
    made, build = [], CpuTarget.build

    def counting(self, ir, program):
        made.append(ir.name)
        return build(self, ir, program)

    monkeypatch.setattr(CpuTarget, "build", counting)
    return made


def result():
    return septran.compile("softmax", "cpu-x86", shapes={"X": X.shape})(X).tobytes()


DAMAGE = {
    "empty": lambda data: b"",
    "a byte": lambda data: data[:1],
    "a half": lambda data: data[: len(data) // 2],
    "without its last byte": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "zeros at its end": lambda data: data[: -len(data) // 3] + bytes(len(data) // 3),
    "one bit": lambda data: bytes([data[0] ^ 1]) + data[1:],
}


@pytest.mark.slow
def test_damaged_files_are_compiled_again(root, builds):
    wanted = result()
    (entry,) = (root / "entries").iterdir()
    names = sorted(file.name for file in entry.iterdir())
    assert names == ["kernel.json", "kernel.so", "manifest.json"]
    count = 1
    for name in names:
        for damage in DAMAGE.values():
            data = (entry / name).read_bytes()
            (entry / name).unlink()  # a file that is loaded must not change under its process
            (entry / name).write_bytes(damage(data))
            assert result() == wanted
            count += 1
            assert len(builds) == count
            assert result() == wanted, "the entry is whole again"
            assert len(builds) == count
        (entry / name).unlink()
        assert result() == wanted
        count += 1
        assert len(builds) == count


def test_a_file_system_without_room_is_no_obstacle(root, builds, monkeypatch):
    save, limits = CpuExecutable.save, resource.getrlimit(resource.RLIMIT_FSIZE)

    def cramped(self, folder):
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, limits[1]))
        try:
            save(self, folder)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    with monkeypatch.context() as patch:
        patch.setattr(CpuExecutable, "save", cramped)
        with pytest.warns(CacheWarning, match="kernels are not kept"):
            wanted = result()
        assert result() == wanted  # without another warning
    assert not list((root / "staging").iterdir())
    assert result() == wanted
    assert result() == wanted
    assert len(builds) == 3
    assert Cache(root).info().entries == 1


@pytest.mark.parametrize("part", ["entries", "staging", "locks"])
@pytest.mark.one_in(2)
def test_a_folder_that_cannot_be_made_is_no_obstacle(root, builds, part):
    root.mkdir(mode=0o700)
    (root / part).write_text("in the way")
    if part == "locks":  # without locks nothing is lost but work
        result()
    else:
        with pytest.warns(CacheWarning, match="kernels are not kept"):
            result()
    result()
    assert len(builds) == (1 if part == "locks" else 2)


def test_a_read_only_folder_is_read(root, builds):
    wanted = result()
    for folder in (root / "entries", root / "staging", root / "locks", root):
        folder.chmod(0o500)
    try:
        assert result() == wanted
    finally:
        root.chmod(0o700)
    assert len(builds) == 1


def test_a_kernel_outlives_its_entry(root):
    kernel = septran.compile("softmax", "cpu-x86", shapes={"X": X.shape})
    again = septran.compile("softmax", "cpu-x86", shapes={"X": X.shape})
    wanted = kernel(X)
    Cache(root).clear()
    assert (again(X) == wanted).all()
    assert (kernel(X) == wanted).all()


COPIES = {"cpu-x86": "kernel.so", "dsa-sim": "kernel.c", "nvidia-a100": "kernel.json"}


@pytest.mark.parametrize("machine", COPIES)
@pytest.mark.one_in(2)
def test_a_copied_and_commented_file_finds_what_was_built(root, tmp_path, machine):
    import inspect

    from septran.operators import softmax

    text = inspect.getsource(softmax)
    mapping = (mappings_root() / f"{machine}.mapping.yaml").read_text()
    stages = []
    for name, comment in (("one", ""), ("two", "# a comment\n# and another\n")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "softmax.py").write_text(comment + text)
        (folder / "my.mapping.yaml").write_text(comment + mapping)
        kernel = septran.compile(
            folder / "softmax.py", folder / "my.mapping.yaml", shapes={"X": (64, 128)}
        )
        stages.append(kernel.stages)
        source = str(kernel.stages.source)
        assert f"{folder / 'softmax.py'}:" in source
        assert f"{folder / 'my.mapping.yaml'}:" in source
    assert Cache(root).info().entries == 1
    one, two = (str(s.source) for s in stages)
    assert "/one/" not in two
    assert "/two/" not in one
    if machine == "dsa-sim":
        origins = " ".join(stages[1].executable.origins.values())
        assert "/two/softmax.py" in origins
        assert "/one/" not in origins


def test_what_differs_in_more_than_a_comment_is_built(root, tmp_path):
    import inspect

    from septran.operators import softmax

    text = inspect.getsource(softmax)
    for number, changed in enumerate((text, text.replace("task.exp(", "2.0 * task.exp("))):
        (tmp_path / "softmax.py").write_text(changed)
        septran.compile(tmp_path / "softmax.py", "cpu-x86", shapes={"X": (4, 8)})
        assert Cache(root).info().entries == number + 1


def test_machine_code_is_made_once_for_the_cache_and_calls(root):
    """A kernel that is linked runs from its library; its text is made when it is looked at."""
    kernel = septran.compile("softmax", "cpu-x86", shapes={"X": X.shape})
    executable = kernel.stages.executable
    (entry,) = (root / "entries").iterdir()
    assert executable.library == (entry / "kernel.so").read_bytes()
    object.__setattr__(executable, "module", None)  # which LLVM would compile once more
    assert kernel.check(X).right
    assert "assembly" not in vars(executable)
    assert "vector bits" in executable.source.facts


def test_the_assembly_is_that_of_the_kernel_wherever_it_comes_from(root):
    def made():
        kernel = septran.compile("softmax", "cpu-x86", shapes={"X": X.shape})
        return kernel.stages.executable

    built, loaded = made(), made()
    assert loaded.module is None
    assert built.assembly == loaded.assembly == str(built.module.inspect_source("asm"))


def test_what_former_versions_saved_with_its_assembly_is_read(root, tmp_path):
    executable = septran.compile("softmax", shapes={"X": X.shape}).stages.executable
    executable.save(tmp_path)
    facts = json.loads((tmp_path / "kernel.json").read_text())
    del facts["llvm"]
    facts["parts"] = {"assembly": executable.assembly}
    (tmp_path / "kernel.json").write_text(json.dumps(facts))
    assert CpuTarget().load(tmp_path).source == executable.source


@pytest.mark.parametrize(("machine", "all_of_it"), [("dsa-sim", True), ("cpu-x86", False)])
def test_a_module_is_printed_once_for_both_texts(machine, all_of_it, monkeypatch):
    """As TVM prints it without functions in LLVM's own words, which CPUs' code has."""
    shapes = operators.cases("softmax")[0].sizes
    ir = septran.produce_stages("softmax", machine, shapes=shapes).tensor_ir
    wanted, printed = str(ir.module.script()), []
    script = type(ir.module).script
    monkeypatch.setattr(
        type(ir.module), "script", lambda *a, **k: printed.append(k) or script(*a, **k)
    )
    assert ir.text == wanted
    assert (ir.complete_text == wanted) == all_of_it
    assert len(printed) == 1


def test_functions_in_llvms_own_words_are_part_of_what_is_built(root, monkeypatch):
    """TVMScript leaves their text out, so two kernels can look the same and differ."""
    folders = []
    for text in (
        guards.APART,
        guards.APART.replace("or i1 %before, %behind", "or i1 false, %behind"),
    ):
        monkeypatch.setattr(guards, "APART", text)
        kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 8, "N": 8, "K": 8})
        folders.append((kernel.stages.tensor_ir.text, kernel.stages.tensor_ir.complete_text))
        assert kernel.stages.executable
    assert folders[0][0] == folders[1][0]
    assert folders[0][1] != folders[1][1]
    assert Cache(root).info().entries == 2
