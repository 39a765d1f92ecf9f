"""A library of kernels, as programs without Python meet it: it builds, and checks itself."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess

import ml_dtypes
import numpy as np
import pytest

import septran
from septran.argument_checks import WrongArgumentError
from septran.runtime.errors import NotExportableError
from septran.targets.cpu.library.elf import global_symbols, renamed
from septran.targets.cpu.library.model import LibraryNameError, MixedLibraryError
from septran.targets.cpu.library.write import numbers
from septran.targets.cpu.run.isa import lacking
from septran.targets.templates import check_header

needs_cc = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("cc", "c++", "ar")), reason="no C++ compiler here"
)
WARNINGS = "-Wall -Wextra -Werror"


def needs(*programs):
    absent = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(absent), reason=f"no {absent} here")


def clang():
    """clang and clang++, which Debian names after their release where it is no default."""
    for end in ("", *(f"-{release}" for release in range(24, 13, -1))):
        both = (f"clang{end}", f"clang++{end}")
        if all(map(shutil.which, both)):
            return pytest.param(both, id="clang")
    return pytest.param((), id="clang", marks=pytest.mark.skip("no clang here"))


def small_gemm(**more):
    return septran.compile("gemm", "cpu-x86", shapes={"M": 17, "N": 20, "K": 33}, **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A library of two kernels for two processors, one of any number of rows."""
    rows = septran.compile("softmax", "cpu-x86", shapes={"M": 5, "N": 8}, dynamic={"M": (2, 50)})
    place = tmp_path_factory.mktemp("mylib") / "out"
    kernels = [small_gemm(), rows]
    assert septran.export(kernels, place, name="mylib", arch=["avx2", "avx512"]) == (
        place / "include/mylib.h"
    )
    return place


@pytest.fixture(scope="module")
def library(folder):
    if not (folder / "lib/libmylib.so").exists():
        pytest.skip("no C compiler here")
    if lacking("x86-64-v3"):
        pytest.skip("this host has no AVX2")
    found = ctypes.CDLL(str(folder / "lib/libmylib.so"))
    found.mylib_message.restype = found.mylib_processor.restype = ctypes.c_char_p
    found.mylib_build.restype = found.mylib_lacking.restype = ctypes.c_char_p
    return found


@pytest.fixture(scope="module")
def programs(folder, library, tmp_path_factory):
    """The libraries and examples, built without a warning."""
    place = tmp_path_factory.mktemp("programs")
    done = built(folder, place)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def in_folder(folder, *command):
    words = list(map(str, command))
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def built(folder, out, *words, **environment):
    script = ["sh", str(folder / "build.sh"), *words]
    given = {"CFLAGS": WARNINGS, "CXXFLAGS": WARNINGS, "OUT": str(out), **environment}
    return subprocess.run(
        script, env={**os.environ, **given}, capture_output=True, text=True, check=False
    )


def ran(*command, **environment):
    words = [str(word) for word in command]
    done = subprocess.run(
        words, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ------------------------------------------------------------------------- what is in the folder
def test_the_folder_has_all_that_a_program_without_python_needs(folder):
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {
        "include/mylib.h", "CMakeLists.txt", "build.sh", "README.md", "lib/pkgconfig/mylib.pc",
        "lib/cmake/mylib/mylibConfig.cmake", "lib/cmake/mylib/mylibConfigVersion.cmake",
        "src/mylib.c", "src/runtime.c", "src/processor.c", "src/gemm.x86_64_v3.o",
        "src/gemm.x86_64_v4.o", "examples/example.c", "examples/example.cpp",
        "examples/data/gemm.A", "examples/data/gemm.C.exact", "examples/data/gemm.C.bound",
    } <= found  # fmt: skip


def test_the_header_describes_every_argument(folder):
    header = (folder / "include/mylib.h").read_text()
    assert "int32_t mylib_gemm(float *C, const float *A, const float *B);" in header
    assert "int32_t mylib_softmax(float *Y, const float *X, int32_t M);" in header
    for words in (
        "C [17, 20] float32: is written, all of it;", "1360 bytes, at a multiple of 4 bytes.",
        "X [M, 8] float32: is read", "M * 8 * 4 bytes", "M: an extent, from 2 to 50.",
        "Matrix product: C = A @ B.", "Code for: x86_64_v4, x86_64_v3.", "SHA-256 of its mapping",
    ):  # fmt: skip
        assert words in header


def test_no_two_objects_define_the_same_symbol_and_all_are_the_library_s(folder):
    defined = [
        name
        for path in folder.glob("src/*.o")
        for name, here in global_symbols(path.read_bytes()).items()
        if here and not name.endswith("TVMBackendParallelLaunch")  # weak: the runtime's is taken
    ]
    assert len(defined) == len(set(defined)) >= 4
    assert all(name.startswith("mylib_internal_") for name in defined)


@needs("nm")
def test_the_shared_library_offers_what_the_header_declares_and_nothing_else(folder, library):
    text = ran("nm", "-D", "--defined-only", folder / "lib/libmylib.so")
    header = (folder / "include/mylib.h").read_text()
    offered = {line.split()[-1] for line in text.splitlines()}
    assert offered == set(re.findall(r"(mylib_\w+)\(", header))
    assert not any("internal" in name for name in offered)


def test_a_file_that_is_no_object_is_not_renamed():
    with pytest.raises(ValueError, match="no ELF file"):
        renamed(b"MZ" + bytes(100), lambda name, defined: name)


# ----------------------------------------------------------------------------------- it is right
@needs_cc
def test_the_examples_check_themselves(folder, programs):
    said = [
        in_folder(folder / "examples", programs / name) for name in ("example_c", "example_cpp")
    ]
    assert [done.returncode for done in said] == [0, 0]
    for done, callers in zip(said, (1, 4), strict=True):
        assert done.stdout.count("gemm C: right") == callers
        assert done.stdout.count("softmax Y: right") == callers
    assert "right in all threads" in said[1].stdout


@needs_cc
def test_a_wrong_result_is_found(folder, programs, tmp_path):
    copy = shutil.copytree(folder / "examples", tmp_path / "examples")
    exact = np.fromfile(copy / "data/gemm.C.exact")
    exact[7] += 3 * np.fromfile(copy / "data/gemm.C.bound")[7]
    exact.tofile(copy / "data/gemm.C.exact")
    done = in_folder(copy, programs / "example_c")
    assert done.returncode == 1
    assert "gemm C: 1 of 340 elements are wrong; number 7 is" in done.stdout
    assert in_folder(copy, programs / "example_cpp").returncode == 1


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
@pytest.mark.parametrize("compilers", [("gcc", "g++"), clang()])
def test_the_examples_are_clean_under_sanitizers(folder, library, tmp_path, compilers, sanitizer):
    flags = f"{WARNINGS} -g -fsanitize={sanitizer} -fno-sanitize-recover=all"
    given = dict(zip(("CC", "CXX"), compilers, strict=True))
    done = built(folder, tmp_path, "check", CFLAGS=flags, CXXFLAGS=flags, LDFLAGS=flags, **given)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_cc
@pytest.mark.slow
@pytest.mark.one_width
def test_openmp_runs_the_loops_if_asked(folder, library, tmp_path):
    done = built(folder, tmp_path, "check", CFLAGS=f"{WARNINGS} -fopenmp", LDFLAGS="-fopenmp")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GOMP_parallel" in ran("nm", "-D", tmp_path / "libmylib.so")


NUMBERS = """
#include "check.h"
int main(int count, char **words) {
  size_t total = (size_t)atol(words[2]), bytes = (size_t)atol(words[3]);
  unsigned char *bits = malloc(total * bytes);
  for (size_t n = 0; n < total; n++)
    for (size_t b = 0; b < bytes; b++) bits[n * bytes + b] = (unsigned char)(n >> 8 * b);
  for (size_t n = 0; n < total; n++) {
    double value = number(words[1], bits, n);
    fwrite(&value, sizeof value, 1, stdout);
  }
  return count != 4;
}
"""


@needs_cc
def test_the_examples_know_every_short_float(tmp_path):
    (tmp_path / "numbers.c").write_text(NUMBERS)
    (tmp_path / "check.h").write_text(check_header())
    ran("cc", "-std=c11", f"-I{tmp_path}", tmp_path / "numbers.c", "-o", tmp_path / "n", "-lm")
    for kind in ("float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"):
        dtype = np.dtype(getattr(ml_dtypes, kind, None) or kind)
        bits = np.arange(2 ** (8 * dtype.itemsize), dtype=f"uint{8 * dtype.itemsize}")
        command = [str(tmp_path / "n"), kind, str(bits.size), str(dtype.itemsize)]
        found = np.frombuffer(subprocess.run(command, check=True, capture_output=True).stdout)
        with np.errstate(invalid="ignore"):  # NaNs that signal
            exact = bits.view(dtype).astype(np.float64)
        np.testing.assert_array_equal(found, exact)


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "int8", "float64"])
def test_every_element_type_is_compared(tmp_path, dtype):
    small_gemm(dtypes=dtype).export(tmp_path)
    done = built(tmp_path, tmp_path / "build", "check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gemm C: right" in done.stdout


# ------------------------------------------------------------------------- calls that are refused
def pointers(*arrays):
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


def test_mistakes_of_a_call_are_statuses(library):
    x, y = np.ones((50, 8), "float32"), np.zeros((50, 8), "float32")
    call = library.mylib_softmax
    assert call(*pointers(y, x), 4) == 0
    assert y[:4].sum() == pytest.approx(4)
    assert not y[4:].any()
    for arguments, words in (
        ((None, *pointers(x), 4), b"a tensor is NULL"),
        ((ctypes.c_void_p(y.ctypes.data + 2), *pointers(x), 4), b"multiple of its element's size"),
        ((*pointers(y, x), 1), b"an extent is beyond"),
        ((*pointers(y, x), 51), b"an extent is beyond"),
    ):
        assert words in library.mylib_message(call(*arguments))
    assert library.mylib_message(77) == b"no status of mylib"


def test_tensors_lie_anywhere_that_an_element_may(library):
    rng = np.random.default_rng(2)
    a, b = rng.integers(-4, 5, (17, 33)), rng.integers(-4, 5, (33, 20))
    for offset in range(0, 64, 4):
        held = [np.empty(x.size * 4 + 128, np.uint8) for x in (a @ b, a, b)]
        starts = [-room.ctypes.data % 64 + offset for room in held]
        c, *rest = (
            room[start : start + 4 * x.size].view("float32").reshape(x.shape)
            for room, start, x in zip(held, starts, (a @ b, a, b), strict=True)
        )
        rest[0][:], rest[1][:] = a, b
        assert library.mylib_gemm(*pointers(c, *rest)) == 0
        np.testing.assert_array_equal(c, a @ b)


def test_threads_are_as_many_as_one_says(library):
    library.mylib_set_threads(3)
    assert library.mylib_threads() == 3
    library.mylib_set_threads(0)
    assert library.mylib_threads() == len(os.sched_getaffinity(0))
    library.mylib_set_threads(100_000)
    assert library.mylib_threads() == 256
    library.mylib_set_threads(-1)
    assert library.mylib_threads() == len(os.sched_getaffinity(0))


# ----------------------------------------------------------------------------- other processors
@needs_cc
@needs("qemu-x86_64")
def test_the_best_code_that_a_processor_has_is_taken(folder, library, programs):
    emulator = ("qemu-x86_64", "-cpu", "Haswell")
    done = in_folder(folder / "examples", *emulator, programs / "example_cpp")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "code for x86_64_v3" in done.stdout
    best = b"x86_64_v3" if lacking("x86-64-v4") else b"x86_64_v4"
    assert library.mylib_processor(0) == best


@needs_cc
@needs("qemu-x86_64")
def test_a_processor_that_has_none_of_it_is_told_what_it_lacks(folder, programs):
    emulator = ("qemu-x86_64", "-cpu", "Nehalem")
    done = in_folder(folder / "examples", *emulator, programs / "example_c")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "mylib was compiled for processors with avx, which this has not" in done.stdout


@needs_cc
@needs("qemu-x86_64")
def test_code_for_long_vectors_is_not_called_without_them(tmp_path):
    septran.export([small_gemm()], tmp_path, name="wide", arch="avx512")
    (tmp_path / "program.c").write_text(
        '#include "wide.h"\n#include <stdio.h>\nint main(void) {\n'
        "  float a[33 * 20] = {0}, c[17 * 20] = {7};\n"
        "  int32_t status = wide_gemm(c, a, a);\n"
        "  puts(wide_message(status));\n"
        "  return !(status == WIDE_NO_PROCESSOR && c[0] == 7 && !wide_processor(0));\n}\n"
    )
    program = tmp_path / "program"
    libraries = [tmp_path / "lib/libwide.a", "-lm", "-pthread"]
    ran("cc", f"-I{tmp_path}/include", tmp_path / "program.c", "-o", program, *libraries)
    said = ran("qemu-x86_64", "-cpu", "Haswell", program)
    assert "wide was compiled for processors with avx512bw, which this has not" in said


# --------------------------------------------------------------------------------- fresh projects
PROGRAM = """
#include "mylib.h"
#include <stdio.h>
int main(void) {
  float x[2 * 8] = {0}, y[2 * 8];
  int32_t status = mylib_softmax(y, x, 2);
  printf("%s %g\\n", mylib_message(status), y[3]);
  return status != MYLIB_DONE || y[3] != 0.125f;
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.13)
project(fresh LANGUAGES C CXX)
find_package(mylib 0.1 REQUIRED)
foreach(kind mylib static)
  add_executable(${kind}_c program.c)
  add_executable(${kind}_cpp program.cpp)
  target_link_libraries(${kind}_c mylib::${kind})
  target_link_libraries(${kind}_cpp mylib::${kind})
endforeach()
"""


def fresh(place):
    place.mkdir()
    for name in ("program.c", "program.cpp"):
        (place / name).write_text(PROGRAM)
    (place / "CMakeLists.txt").write_text(PROJECT)
    return place


@needs_cc
@needs("pkg-config")
def test_pkg_config_finds_the_folder_as_it_stands(folder, library, tmp_path):
    place = fresh(tmp_path / "fresh")
    path = {"PKG_CONFIG_PATH": str(folder / "lib/pkgconfig")}
    flags = ran("pkg-config", "--cflags", "--libs", "mylib >= 0.1", **path).split()
    ran("c++", place / "program.cpp", "-o", place / "program", *flags)
    ran(place / "program", LD_LIBRARY_PATH=str(folder / "lib"))


@needs_cc
@needs("cmake")
@pytest.mark.slow
@pytest.mark.one_width
def test_cmake_finds_the_folder_as_it_stands(folder, library, tmp_path):
    place = fresh(tmp_path / "fresh")
    ran("cmake", "-S", place, "-B", place / "build", f"-DCMAKE_PREFIX_PATH={folder}")
    ran("cmake", "--build", place / "build")
    for program in ("mylib_c", "mylib_cpp", "static_c", "static_cpp"):
        ran(place / "build" / program)


@needs_cc
@needs("cmake", "ctest")
@pytest.mark.slow
@pytest.mark.one_width
def test_cmake_builds_tests_and_installs(folder, library, tmp_path):
    copy, prefix = shutil.copytree(folder, tmp_path / "copy"), tmp_path / "prefix"
    for library_file in copy.glob("lib/libmylib.*"):
        library_file.unlink()  # as where the exporting host had no compiler
    ran("cmake", "-S", copy, "-B", tmp_path / "build", "-DSEPTRAN_OPENMP=ON")
    ran("cmake", "--build", tmp_path / "build")
    said = ran("ctest", "--test-dir", tmp_path / "build")
    assert "100% tests passed, 0 tests failed out of 4" in said
    ran("cmake", "--install", tmp_path / "build", "--prefix", prefix)
    assert (prefix / "lib/libmylib.so").exists()
    place = fresh(tmp_path / "fresh")
    ran("cmake", "-S", place, "-B", place / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    ran("cmake", "--build", place / "build")
    ran(place / "build/mylib_c")


@needs_cc
@pytest.mark.slow
@pytest.mark.one_width
def test_two_libraries_meet_in_one_program(folder, library, tmp_path):
    septran.export({"gemm": small_gemm()}, tmp_path / "other", name="other")
    small_gemm().export(tmp_path / "alone")
    (tmp_path / "program.c").write_text(
        '#include "gemm.h"\n#include "mylib.h"\n#include "other.h"\nint main(void) {\n'
        "  static float a[17 * 33], b[33 * 20], c[17 * 20];\n"
        "  other_set_threads(3);\n"
        "  return mylib_gemm(c, a, b) + other_gemm(c, a, b) + septran_gemm(c, a, b)\n"
        "    + (other_threads() != 3) + (mylib_threads() == 3);\n}\n"
    )
    places = [folder, tmp_path / "other", tmp_path / "alone"]
    files = [next(place.glob("lib/lib*.a")) for place in places]
    includes = [f"-I{place}/include" for place in places]
    command = ["cc", *includes, tmp_path / "program.c", *files, "-o", tmp_path / "program"]
    ran(*command, "-lm", "-pthread")
    ran(tmp_path / "program", SEPTRAN_THREADS="2")


# -------------------------------------------------------------------------- mistakes of an export
@pytest.mark.parametrize("name", ["2nd", "my-lib", "a b", "_x"])
def test_a_name_that_c_has_not_is_refused(tmp_path, name):
    with pytest.raises(LibraryNameError, match="is no name in C") as error:
        small_gemm().export(tmp_path, name=name)
    assert "septran.export({'name': kernel}, folder)" in error.value.hint


def test_names_of_the_library_s_own_are_refused(tmp_path):
    with pytest.raises(LibraryNameError, match="the library itself uses the name 'threads'"):
        septran.export({"threads": small_gemm()}, tmp_path, name="mylib")


def test_several_kernels_need_names_of_their_own(tmp_path):
    with pytest.raises(LibraryNameError, match="has no name of its own"):
        septran.export({"a": small_gemm(), "b": small_gemm()}, tmp_path)
    with pytest.raises(WrongArgumentError, match="two kernels are called gemm"):
        septran.export([small_gemm(), small_gemm()], tmp_path, name="mylib")
    with pytest.raises(WrongArgumentError, match="no kernel"):
        septran.export([], tmp_path, name="mylib")
    with pytest.raises(WrongArgumentError, match="names processors"):
        septran.export([small_gemm()], tmp_path, name="mylib", arch=[3])


def test_processors_of_several_kinds_make_no_library(tmp_path):
    with pytest.raises(MixedLibraryError, match="another kind of processor"):
        small_gemm().export(tmp_path, arch=["avx2", "neoverse-n1"])


def test_what_is_loaded_or_empty_is_not_exported(tmp_path):
    kernel = small_gemm()
    kernel.save(tmp_path / "saved")
    with pytest.raises(NotExportableError, match="loaded without its logic"):
        septran.load(tmp_path / "saved").export(tmp_path / "out")
    empty = septran.compile("softmax", "cpu-x86")
    empty(np.zeros((0, 4), "float32"))
    with pytest.raises(NotExportableError, match="an empty tensor"):
        empty.export(tmp_path / "out")


def test_a_call_too_large_to_be_computed_in_float64_has_an_example_without_numbers(tmp_path):
    large = septran.compile("elementwise", "cpu-x86", shapes={"M": 2048, "N": 2048})
    large.export(tmp_path)
    assert not (tmp_path / "examples/data").exists()
    assert "there is nothing to compare with" in (tmp_path / "examples/example.c").read_text()


def test_a_version_has_a_part_that_build_tools_compare():
    assert [numbers(v) for v in ("0.1.0", "2.0.dev3+local", "12rc1")] == ["0.1.0", "2.0", "12"]


def test_the_header_says_what_a_scalar_is_if_the_logic_is_not_told(tmp_path):
    septran.compile("rms_norm", "cpu-x86", shapes={"M": 3, "N": 8}).export(tmp_path)
    header = (tmp_path / "include/rms_norm.h").read_text()
    assert "const float *W, float eps);" in header
    assert "eps: a scalar, in the logic 1e-06 if not said." in header
