"""Saved kernels: they come back whole, and nothing damaged or foreign is loaded."""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import septran
from septran.runtime import archive
from septran.runtime.errors import (
    ArchiveError,
    ArgumentShapeError,
    NoLogicError,
    NotSpecialisedError,
)
from septran.runtime.manifest import MANIFEST, write_manifest
from tests.scripts import WITHOUT_TORCH

ROOT = Path(__file__).parents[2]
A = np.random.default_rng(0).standard_normal((33, 20)).astype(np.float32)
B = np.random.default_rng(1).standard_normal((20, 17)).astype(np.float32)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEPTRAN_CACHE_DIR", str(tmp_path_factory.mktemp("cache") / "cache"))
        kernel = septran.compile("gemm", "cpu-x86")
        kernel(A, B)
        kernel(A[:5], B)
        yield kernel


@pytest.fixture(scope="module")
def saved(kernel, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "gemm"
    kernel.save(path)
    return path


@pytest.fixture
def copy(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "gemm")
    return tmp_path / "gemm"


@pytest.mark.parametrize("name", ["gemm", "gemm.zip"])
def test_a_saved_kernel_comes_back(kernel, tmp_path, name):
    kernel.save(tmp_path / name)
    loaded = septran.load(tmp_path / name)
    for a in (A, A[:5]):
        for _ in range(2):
            assert (loaded(a, B) == kernel(a, B)).all()
    assert str(loaded.signature) == str(kernel.signature)
    assert str(loaded.stages.tile_program) == str(kernel.stages.tile_program)
    assert loaded.stages.source.language == kernel.stages.source.language
    assert loaded.profile(A, B, repeat=3).flops == 2 * 33 * 20 * 17
    assert loaded.stages.task_tree._repr_mimebundle_()["text/plain"]
    assert loaded.remarks == ()


def test_a_loaded_kernel_says_what_it_cannot_do(saved):
    loaded = septran.load(saved)
    with pytest.raises(ArchiveError, match=r"(?s)without its logic.*A float32\[33, 20\]"):
        loaded(A[:7], B)
    with pytest.raises(ArgumentShapeError, match="K is 20 in A"):
        loaded(A, A)
    for method in (loaded.reference, loaded.interpret, loaded.check):
        with pytest.raises(NoLogicError, match="was loaded from a file"):
            method(A, B)


@pytest.mark.slow
def test_another_process_loads_it(saved):
    script = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        f"{WITHOUT_TORCH}import numpy as np, septran;"
        "k = septran.load(sys.argv[1]);"
        "assert (k(np.ones((33, 20), 'f4'), np.ones((20, 17), 'f4')) == 20).all()"
    )
    subprocess.run([sys.executable, "-c", script, str(saved), str(ROOT)], check=True)


def test_equal_kernels_give_equal_files(kernel, tmp_path):
    kernel.save(tmp_path / "a.zip")
    septran.load(tmp_path / "a.zip")
    kernel.save(tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_saving_again_replaces_and_spares_other_folders(kernel, copy, tmp_path):
    kernel.save(copy)
    assert septran.load(copy)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    with pytest.raises(ArchiveError, match="other things in it"):
        kernel.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_kernel_without_shapes_cannot_be_saved(tmp_path):
    with pytest.raises(NotSpecialisedError):
        septran.compile("gemm", "cpu-x86").save(tmp_path / "gemm")


def _damaged(folder: Path, number: int) -> None:
    files = sorted(f for f in folder.rglob("*") if f.is_file() and f.name != "manifest.json")
    file = files[number % len(files)]
    data = bytearray(file.read_bytes())
    if number % 2:
        del data[random.randrange(len(data)) :]
    else:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    file.write_bytes(data)


def test_every_damage_is_found_before_loading(saved, tmp_path, monkeypatch):
    random.seed(0)
    monkeypatch.setattr(archive, "target_for", None)  # nothing may get as far as this
    for number in range(100):
        shutil.rmtree(tmp_path / "gemm", ignore_errors=True)
        shutil.copytree(saved, tmp_path / "gemm")
        _damaged(tmp_path / "gemm", number)
        with pytest.raises(ArchiveError, match=r"is damaged|is no saved kernel"):
            septran.load(tmp_path / "gemm")


def test_a_damaged_file_is_an_error(kernel, tmp_path):
    random.seed(0)
    path = tmp_path / "gemm.zip"
    kernel.save(path)
    whole = path.read_bytes()
    for number in range(30):
        data = bytearray(whole)
        if number % 2:
            del data[random.randrange(len(data)) :]
        else:
            for _ in range(5):
                data[random.randrange(len(data))] ^= 0xFF
        path.write_bytes(data)
        try:
            septran.load(path)  # dates and the like in a zip file carry no meaning
        except ArchiveError:
            continue


def _edited(folder: Path, **changes: object) -> None:
    data = json.loads((folder / "archive.json").read_text())
    (folder / "archive.json").write_text(json.dumps(data | changes))
    (folder / "manifest.json").unlink()
    write_manifest(folder, archive.KEY)


def test_another_processor_is_refused(copy, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    with pytest.raises(ArchiveError, match=r"was made for \w+ on \w+, and this is pdp11 on"):
        septran.load(copy)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 99}, "format 99, and this version reads 1"),
        ({"host": None}, "was made for None on None"),
        ({"host": [1]}, "was made for None on None"),
        ({"signature": {}}, "no kernel of this version"),
        ({"compiled": [{}]}, "no kernel of this version"),
        ({"compiled": None}, "no kernel of this version"),
    ],
)
def test_strange_descriptions_are_refused(copy, changes, message):
    _edited(copy, **changes)
    with pytest.raises(ArchiveError, match=message):
        septran.load(copy)


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, "[]", "{", "3"])
def test_other_descriptions_are_refused_though_their_hashes_are_right(copy, text):
    (copy / archive.ARCHIVE).write_text(text)
    (copy / MANIFEST).unlink()
    write_manifest(copy, archive.KEY)
    with pytest.raises(ArchiveError, match="no kernel of this version") as caught:
        septran.load(copy)
    assert "save the kernel again" in caught.value.hint


@pytest.mark.parametrize("name", ["../outside", "/tmp/septran-outside", "a/../../outside"])
def test_files_outside_of_the_archive_are_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as file:
        file.writestr(name, "x")
    with pytest.raises(ArchiveError, match="outside of itself"):
        septran.load(tmp_path / "evil.zip")
    assert not (tmp_path / "outside").exists()


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_LIMIT_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("big", b"\0" * (2 << 20))
    with pytest.raises(ArchiveError, match="unpacks to more than 1 MiB"):
        septran.load(tmp_path / "bomb.zip")


def test_what_is_no_kernel_is_an_error(tmp_path):
    (tmp_path / "text").write_text("hello")
    for path in (tmp_path, tmp_path / "text", tmp_path / "missing"):
        with pytest.raises(ArchiveError, match="no saved kernel"):
            septran.load(path)


def test_without_a_c_compiler_the_error_says_so(kernel, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(type(kernel.stages.executable), "save", _unlinkable)
    with pytest.raises(ArchiveError, match="gemm cannot be saved: there is no C compiler"):
        kernel.save(tmp_path / "gemm")


def _unlinkable(self, folder):
    raise TypeError("expected str, bytes or os.PathLike object, not NoneType")


def test_a_loaded_kernel_is_saved_again_even_without_a_compiler(saved, tmp_path, monkeypatch):
    loaded = septran.load(saved)
    monkeypatch.setenv("PATH", "")
    loaded.save(tmp_path / "again.zip")
    assert (septran.load(tmp_path / "again.zip")(A, B) == loaded(A, B)).all()


@pytest.mark.slow
def test_a_kernel_from_the_cache_is_saved(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    code = (
        f"{WITHOUT_TORCH}import septran, sys\n"
        "k = septran.compile('softmax', 'cpu-x86', shapes={'M': 7, 'N': 9})\n"
        "k.save(sys.argv[1])\n"
        "print(septran.load(sys.argv[1])(__import__('numpy').zeros((7, 9), 'float32')).sum())"
    )
    environment = {**os.environ, "SEPTRAN_CACHE_DIR": str(folder)}
    for name in ("first", "second"):  # the second process finds it in the cache
        run = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / f"{name}.zip")], cwd=ROOT,
            env=environment, capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        assert float(run.stdout) == pytest.approx(7)


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim"])
def test_what_is_saved_in_anothers_place_is_what_is_loaded(tmp_path, machine):
    """The dynamic linker knows a library by its path, and does not look into it again."""
    x = np.ones((8, 16), np.float32)
    for value, expected in (("X + 1.0", 2.0), ("-X", -1.0)):
        (tmp_path / "op.py").write_text(
            "from septran import task\n\n"
            '@task.define(leaf=True)\ndef block(Y, X):\n    "One block."\n'
            f"    Y[:, :] = {value}\n\n"
            '@task.define\ndef op(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):\n'
            "    for _ in task.parallel_range(1):\n        task.launch(block, Y, X)\n"
        )
        kernel = septran.compile(tmp_path / "op.py", machine)
        assert (kernel(x) == expected).all()
        kernel.save(tmp_path / "saved")
        assert (septran.load(tmp_path / "saved")(x) == expected).all()
