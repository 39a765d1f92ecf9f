"""A library that was exported is loaded as kernels again, if it is what its manifest says."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import septran
from septran.runtime.errors import ArchiveError, NotExportableError
from septran.targets.cpu.library.opened import LibraryCallError, LibraryLoadError
from septran.targets.cpu.run.isa import lacking

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("cc", "ar")), reason="no C compiler here"
)


OTHER = "{extends: cpu-x86, tunables: {block_M: 3}}"


def kernels():
    rows = septran.compile("softmax", "cpu-x86", shapes={"M": 5, "N": 8}, dynamic={"M": (2, 50)})
    return [septran.compile("gemm", "cpu-x86", shapes={"M": 9, "N": 20, "K": 33}), rows]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library") / "out"
    septran.export(kernels(), folder, name="mylib")
    return folder


@pytest.fixture
def folder(exported, tmp_path):
    """One that a test may change."""
    return shutil.copytree(exported, tmp_path / "copy")


def edited(folder, change):
    file = folder / "manifest.json"
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


def test_the_manifest_says_what_it_was_made_from(exported):
    data = json.loads((exported / "manifest.json").read_text())
    header = (exported / "include/mylib.h").read_text()
    assert data["septran"] == septran.__version__
    assert f'MYLIB_BUILD "{data["library"]["build"]}"' in header
    assert f"MYLIB_ABI {data['library']['abi']} " in header
    for name in ("gemm", "softmax"):
        assert f"SHA-256 of its logic: {data['kernels'][name]['logic']}" in header
        assert f"SHA-256 of its mapping: {data['kernels'][name]['mapping']}" in header
    written = {str(p.relative_to(exported)) for p in exported.rglob("*") if p.is_file()}
    assert set(data["files"]) == written - {"manifest.json"}


def test_other_logic_and_other_mapping_have_other_hashes(exported, tmp_path):
    def hashes(folder, **request):
        sizes = {"M": 9, "N": 20, "K": 33}
        septran.compile("gemm", **{"mapping": "cpu-x86", **request}, shapes=sizes).export(folder)
        made = json.loads((folder / "manifest.json").read_text())["kernels"]["gemm"]
        return made["logic"], made["mapping"]

    first = json.loads((exported / "manifest.json").read_text())["kernels"]["gemm"]
    same = hashes(tmp_path / "same")
    assert same == (first["logic"], first["mapping"])
    assert hashes(tmp_path / "logic", static={"trans_b": True})[0] != same[0]
    assert hashes(tmp_path / "mapping", mapping=OTHER)[1] != same[1]


def test_a_loaded_library_gives_what_the_kernel_gives(exported):
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape).astype("float32") for shape in ((9, 33), (33, 20)))
    product = septran.load(exported, kernel="gemm")
    np.testing.assert_array_equal(product(a, b), kernels()[0](a, b))
    rows = septran.load(exported, kernel="softmax")
    for count in (2, 5, 50):
        x = rng.standard_normal((count, 8)).astype("float32")
        np.testing.assert_array_equal(rows(x), kernels()[1](x))
    assert product.remarks == ()
    assert "mylib_gemm" in str(product.stages.source)


def test_calls_beyond_the_library_are_errors(exported):
    rows = septran.load(exported, kernel="softmax")
    with pytest.raises(LibraryCallError, match="an extent is beyond"):
        rows(np.zeros((51, 8), "float32"))
    with pytest.raises(ArchiveError, match="cannot be called with these arrays"):
        rows(np.zeros((5, 9), "float32"))
    with pytest.raises(ArchiveError, match="cannot be called with these arrays"):
        rows(np.zeros((5, 8), "float64"))


def test_a_library_of_several_needs_a_name(exported):
    with pytest.raises(ArchiveError, match="has 2 kernels, and one is loaded at a time"):
        septran.load(exported)
    with pytest.raises(ArchiveError, match="none of them is gem"):
        septran.load(exported, kernel="gem")


def test_a_loaded_library_is_not_written_once_more(exported, tmp_path):
    kernel = septran.load(exported, kernel="gemm")
    with pytest.raises(ArchiveError, match="lies in a library already"):
        kernel.save(tmp_path / "saved")
    with pytest.raises(NotExportableError, match="loaded without its logic"):
        kernel.export(tmp_path / "out")


@pytest.mark.parametrize("file", ["include/mylib.h", "lib/libmylib.so", "src/runtime.c"])
def test_a_changed_file_is_damage(folder, file):
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ArchiveError, match="a file is not as it was exported"):
        septran.load(folder, kernel="gemm")


def test_another_abi_is_refused(folder):
    edited(folder, lambda data: data["library"].update(abi=99))
    with pytest.raises(LibraryLoadError, match="with ABI 99, and this version reads 1"):
        septran.load(folder, kernel="gemm")


def test_a_manifest_of_another_export_is_refused(folder):
    edited(folder, lambda data: data["library"].update(build="0" * 32))
    with pytest.raises(LibraryLoadError, match="says that its build is"):
        septran.load(folder, kernel="gemm")


def test_another_format_and_a_manifest_with_holes_are_refused(folder):
    edited(folder, lambda data: data.update(format=2))
    with pytest.raises(ArchiveError, match="has format 2, and this version reads 1"):
        septran.load(folder, kernel="gemm")
    edited(folder, lambda data: (data.update(format=1), data.pop("backend")))
    with pytest.raises(ArchiveError, match="no library of this version"):
        septran.load(folder, kernel="gemm")


def test_a_library_that_nobody_linked_says_so(folder):
    edited(folder, lambda data: data["files"].pop("lib/libmylib.so"))
    (folder / "lib/libmylib.so").unlink()
    with pytest.raises(LibraryLoadError, match="the host that exported it had no compiler"):
        septran.load(folder, kernel="gemm")


def test_a_library_for_another_kind_of_processor_is_not_loaded(tmp_path):
    if shutil.which("aarch64-linux-gnu-gcc") is None:
        pytest.skip("no compiler for ARM here")
    septran.compile("softmax", "cpu-arm", shapes={"M": 5, "N": 8}).export(tmp_path)
    with pytest.raises(LibraryLoadError, match=r"libsoftmax.so cannot be loaded here"):
        septran.load(tmp_path)


@pytest.mark.slow
def test_a_library_that_needs_more_than_the_host_has_is_not_run(tmp_path):
    if "amx-tile" not in lacking("sapphirerapids"):
        pytest.skip("this host has AMX")
    sizes = {"M": 64, "N": 64, "K": 64}
    kernel = septran.compile("gemm", "cpu-x86", shapes=sizes, dtypes="bfloat16")
    kernel.export(tmp_path, arch="sapphirerapids")
    with pytest.raises(LibraryLoadError, match="compiled for processors with a"):
        septran.load(tmp_path)


def test_an_export_replaces_an_earlier_one_and_nothing_else(folder):
    (folder / "build").mkdir()
    (folder / "build/mine.txt").write_text("mine")
    kernels()[1].export(folder, name="mylib")
    assert not list(folder.glob("src/gemm*"))
    assert not list(folder.glob("examples/data/gemm*"))
    assert (folder / "build/mine.txt").read_text() == "mine"
    assert septran.load(folder).name == "softmax"
