"""CUDA text as C++: inline assembly, origins, what is unknown; the trace; the cache."""

import subprocess

import numpy as np
import pytest

from septran.emulator import MisuseError, UnknownInstructionError, build, emulate
from septran.emulator.inline_asm import split, statements
from septran.emulator.launch import CudaProgram, KernelLaunch, Pointer, ScalarArgument
from septran.emulator.sites import origin_of
from septran.emulator.trace import COMMANDS
from septran.emulator.translation import to_cpp
from septran.simulator import TRACE


def test_assembly_is_taken_apart():
    text = (
        'x; asm volatile("{ mov.b32 %0, %1; }\\n" "add %0;" : "=r"(a[i, 2]) : '
        '"r"(f(b, c)), "n"(3) : "memory"); y'
    )
    (found,) = statements(text)
    assert text[found.start : found.end].startswith("asm volatile")
    assert text[found.end :] == " y"
    assert found.body == "{ mov.b32 %0, %1; }\nadd %0;"
    assert [(o.constraint, o.expression) for o in found.operands] == [
        ("=r", "a[i, 2]"), ("r", "f(b, c)"), ("n", "3")]  # fmt: skip


def test_strings_and_brackets_are_not_split():
    assert split('a(1, 2), "x, y", {3, 4}', ",") == ["a(1, 2)", ' "x, y"', " {3, 4}"]


def test_lines_stay_where_they_are():
    source = 'int a;\nvoid f() {\n  asm volatile(\n    "trap;"\n    );\n}\nint last;\n'
    found = to_cpp(source)
    lines = found.text.splitlines()[found.lines_before :]
    assert lines.index("int last;") == source.splitlines().index("int last;")


UNKNOWN = {
    'asm volatile("tcgen05.alloc.sync %0, 32;" :: "r"(1));': "tcgen05.alloc.sync",
    'asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0}, {%1}, {%1}, {%0};"'
    ' : "+d"(x) : "d"(x));':
        "mma.sync.aligned.m8n8k4",
    'asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%0, %1}, %2, %2, 1, 1, 1, 0, 0;"'  # noqa: E501
    ' : "+r"(i), "+r"(i) : "l"(0));': "m64n8k16.f16",
    'asm volatile("bar.red.popc.u32 %0, 3, 1;" : "=r"(i));': "a vote at a barrier other than 0",
    'asm volatile("mov.u32 %0, %%nosuch;" : "=r"(i));': "neither a register nor a number",
}  # fmt: skip


@pytest.mark.parametrize("line", UNKNOWN)
def test_unknown_instructions_are_errors_with_their_line(launch, line):
    text = f"""// what it came from [gemm.py:3]
    extern "C" __global__ void k(int* o) {{
      double x = 0; int i = 0;
      // the origin [gemm.py:7]
      {line}
    }}"""
    with pytest.raises(UnknownInstructionError) as caught:
        launch(text, {"o": np.zeros(1, np.int32)})
    said = str(caught.value)
    assert UNKNOWN[line] in said
    assert "line 5" in said
    assert "the origin [gemm.py:7]" in said


def test_unknown_functions_are_named(launch):
    with pytest.raises(
        UnknownInstructionError, match=r"unknown function or type '__nosuch'.*line 1"
    ):
        launch(
            'extern "C" __global__ void k(int* o) { __nosuch(o); }', {"o": np.zeros(1, np.int32)}
        )


def test_origins_are_comments_at_the_same_or_an_outer_depth():
    lines = [
        "// outer",
        "f {",
        "  // inner [a.py:1]",
        "  g {",
        "    // deep",
        "    x;",
        "  }",
        "  y;",
    ]
    assert origin_of(lines, 6) == "deep"
    assert origin_of(lines, 8) == "inner [a.py:1]"
    assert origin_of(lines, 2) == "outer"


def test_scalars_and_several_launches():
    text = """
    extern "C" __global__ void first(float* t, int n, float f) { t[threadIdx.x] = n * f; }
    extern "C" __global__ void second(const float* t, float* o) {
      o[threadIdx.x] = t[threadIdx.x] + 1;
    }"""
    pointers = Pointer("t", "float32", "t"), Pointer("o", "float32", "o")
    launches = (
        KernelLaunch(
            "first",
            1,
            32,
            1,
            0,
            (pointers[0], ScalarArgument("n", "int32"), ScalarArgument("f", "float32")),
        ),
        KernelLaunch("second", 1, 32, 1, 0, pointers),
    )
    program = CudaProgram(text, launches, (("t", 128),), ("o",), (("n", "int32"), ("f", "float32")))
    o = np.zeros(32, np.float32)
    emulate(program, {"o": o}, {"n": 3, "f": 0.5})
    assert (o == 2.5).all()
    with pytest.raises(MisuseError, match="no value for the scalar 'f'"):
        emulate(program, {"o": o}, {"n": 3})
    with pytest.raises(MisuseError, match="no array for the parameter 'o'"):
        emulate(program, {}, {"n": 3, "f": 0.5})


def test_scratch_is_nan_until_it_is_written():
    text = 'extern "C" __global__ void k(float* t, float* o) { *o = *t; }'
    arguments = Pointer("t", "float32", "t"), Pointer("o", "float32", "o")
    program = CudaProgram(text, (KernelLaunch("k", 1, 1, 1, 0, arguments),), (("t", 4),), ("o",))
    o = np.zeros(1, np.float32)
    emulate(program, {"o": o})
    assert np.isnan(o[0])


def test_registers_are_nan_until_they_are_written():
    """On a GPU they hold what was there: an H100 multiplied it by zeros, and NaN came out."""
    text = """extern "C" __global__ void k(float* o) {
    alignas(16) float x[2];
    x[1] = 1.f;
    o[0] = x[0] * 0.f;
    o[1] = x[1];
}
"""
    launch = KernelLaunch("k", 1, 1, 1, 0, (Pointer("o", "float32", "o"),))
    o = np.zeros(2, np.float32)
    emulate(CudaProgram(text, (launch,), (), ("o",)), {"o": o})
    assert np.isnan(o[0])
    assert o[1] == 1


def test_the_trace_has_the_form_of_the_dsa(launch, ptx, tensor_map, random):
    x, o = random("float32", 32, 32), np.zeros((32, 32), np.float32)
    text = (
        ptx
        + """
    extern "C" __global__ void k(const __grid_constant__ CUtensorMap x,
                                 const __grid_constant__ CUtensorMap o) {
      extern __shared__ __align__(128) float s[];
      __shared__ uint64_t b;
      if (threadIdx.x == 0) { bar_init(&b, 1); fence_init(); }
      __syncthreads();
      // x -> shared [copy.py:4]
      if (threadIdx.x == 0) { expect(&b, 4096); load2(s, &x, &b, 0, 0); }
      wait(&b, 0);
      if (threadIdx.x == 0) { store2(&o, s, 0, 0); commit_stores(); wait_stores(); }
    }"""
    )
    maps = [tensor_map(n, v, (32, 32)) for n, v in (("x", x), ("o", o))]
    found = launch(text, {"x": x, "o": o}, maps=maps, shared=4096, grid=200, trace=True)
    trace = found.trace
    assert trace.dtype == TRACE
    assert found.queues[:3] == ("copy engine", "tensor cores", "warp 0")
    loads = trace[trace["command"] == COMMANDS.index("tma load")]
    assert loads["bytes"].sum() == 200 * 4096
    assert set(found.queues[q] for q in loads["queue"]) == {"copy engine"}
    assert found.origins[int(loads["line"][0])] == "x -> shared [copy.py:4]"
    waits = trace[trace["command"] == COMMANDS.index("wait mbarrier")]
    assert (waits["flag"] > 0).all()
    assert (trace["end"] >= trace["start"]).all()
    # 132 multiprocessors: 68 of them run a second block when the first has ended
    assert np.unique(trace["core"]).size == 132
    assert (np.bincount(loads["core"]) == 2).sum() == 68
    first, second = loads[loads["core"] == 0]
    assert second["start"] >= trace["end"][(trace["core"] == 0)].min()
    assert second["issue"] > first["end"]


def test_a_compiled_kernel_is_kept_and_a_damaged_one_made_anew(tmp_path, monkeypatch):
    text = to_cpp('extern "C" __global__ void k(int* o) { *o = 41; }').text
    path = build.library(text, 1)
    made = path.stat().st_mtime_ns
    assert build.library(text, 1) == path
    assert path.stat().st_mtime_ns == made
    path.write_bytes(path.read_bytes()[:-1])
    assert build.library(text, 1).stat().st_mtime_ns != made


def test_a_kernel_whose_comments_differ_is_compiled_once(monkeypatch):
    """Comments name the logic's file and lines: a copied or commented logic changes them."""
    text = 'extern "C" __global__ void k(int* o) {\n  // %s\n  *o = 42; /* %s */\n}'
    path = build.library(to_cpp(text % ("a is copied in [a.py:5]", "one")).text, 1)
    monkeypatch.setattr(build, "_compile_kernel", None)
    assert (
        build.library(to_cpp(text % ("a is copied in [b.py:7]", "two, and more")).text, 1) == path
    )


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a // b\nc", "a  \nc"),
        ("a /* b\n // c\n*/ d", "a  \n\n d"),
        ('f("// no", "\\"// no") // yes', 'f("// no", "\\"// no")  '),
        ('\'"\' + "// no" // yes', '\'"\' + "// no"  '),
        ("a // b \\\nstill // c\nd", "a  \n\nd"),
        ('R"(// no\n)" // yes', 'R"(// no\n)" // yes'),
        ("a / b // c", "a / b  "),
    ],
)
def test_only_comments_are_left_out_and_lines_keep_their_numbers(text, plain):
    assert build.without_comments(text) == plain


def test_without_a_compiler_it_says_so(monkeypatch):
    monkeypatch.setattr(build.shutil, "which", lambda _: None)
    build.compiler.cache_clear()
    with pytest.raises(build.HostCompilerError, match="needs a C\\+\\+ compiler"):
        build.compiler()
    monkeypatch.undo()
    build.compiler.cache_clear()


@pytest.mark.slow
def test_the_portable_switch_of_fibers_compiles():
    source = build._HERE / "runtime" / "runtime.cpp"
    done = subprocess.run(
        [*build.compiler(), *build.COMMON, "-DEMU_UCONTEXT", "-fsyntax-only", str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
