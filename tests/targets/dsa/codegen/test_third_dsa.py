# ruff: noqa: E501 -- prototypes are lines of YAML and C
"""A DSA that SepTran has never heard of: a machine file, a mapping, a header, no Python."""

from __future__ import annotations

import re

import numpy as np
import pytest

import septran
from septran.machine.loader import load_machine, mappings_root
from septran.targets.dsa.code import toolchain
from septran.targets.dsa.code.toolchain import CompileError

MACHINE = """
name: acme-one
backend: dsa
display_name: ACME One
clock_mhz: 500
processors:
  HOST: {}
  TILE: {count: 1, of: HOST}
memories:
  DDR: {visible_to: HOST, bandwidth: 16B/cycle, latency: 100cycles, alignment: 64}
  LOCAL: {visible_to: TILE, capacity: 128KiB, alignment: 64}
  SUMS: {visible_to: TILE, capacity: 64KiB, alignment: 64}
  REGS: {visible_to: TILE, capacity: 16KiB, alignment: 64}
engines:
  loader: {moves: [DDR->LOCAL, DDR->SUMS], asynchronous: true, completes_by: event, queue_depth: 4, bandwidth: 16B/cycle, layouts: [row, padded], transposes: false}
  storer: {moves: [LOCAL->DDR, SUMS->DDR], asynchronous: true, completes_by: event, queue_depth: 4, bandwidth: 16B/cycle, transposes: false}
  shuffle: {moves: [LOCAL<->SUMS], bandwidth: 64B/cycle, layouts: [row, padded]}
instructions:
  dot:
    primitive: gemm
    tile: [8, 8, 8]
    dtypes: [[float32, float32, float32], [float32, float16, float16]]
    operands: {C: SUMS, A: LOCAL, B: LOCAL}
    throughput: 64 FMA/cycle
    options: {queue: DOT, startup_cycles: 4, cycles: 8}
  simd:
    primitive: map
    operands: {Y: [LOCAL, SUMS], X: [LOCAL, SUMS]}
    throughput: 8 elements/cycle
    options: {queue: SIMD, startup_cycles: 4, lanes: 8, exp_factor: 4, temporaries: REGS}
aliases: {GLOBAL: DDR, DRAM: DDR, SPM: LOCAL, SHARED: LOCAL, ACC: SUMS, REGISTER: SUMS, CORE: TILE, BLOCK: TILE, mma: dot, vec: simd, dma_in: loader, dma_out: storer, vec_move: shuffle}
vendor:
  header: acme.h
  queues: {shuffle: simd}
  flags: 16
  functions:
    pointer: "unsigned char *acme_{memory}(int64_t offset)"
    dma_copy: "int acme_fetch(const void *src, int64_t src_stride, void *dst, int64_t dst_stride, int64_t row_bytes, int64_t rows, int queue)"
    dma_zero: "int acme_wipe(void *dst, int64_t dst_stride, int64_t row_bytes, int64_t rows, int queue)"
    mma: "int acme_dot_{type}(const void *a, const void *b, void *c, int64_t a_stride, int64_t b_stride, int64_t c_stride, int a_transposed, int b_transposed, int c_type, int m, int k, int n, int accumulate, int queue)"
    vec_fill: "int acme_fill_{type}(double value, void *dst, int64_t dst_row, int64_t dst_col, int64_t rows, int64_t cols, int queue)"
    vec_copy: "int acme_copy(const void *x, int64_t x_row, int64_t x_col, void *dst, int64_t dst_row, int64_t dst_col, int64_t rows, int64_t cols, int type, int queue)"
    set_flag: "void acme_raise(int flag, int src, int dst)"
    wait_flag: "void acme_await(int flag, int src, int dst)"
    sync: "void acme_drain(void)"
    barrier: "void acme_meet(void)"
"""
HEADER = """
#pragma once
#include <stdint.h>
#define ACME_VERSION 3
unsigned char *acme_local(int64_t offset);
unsigned char *acme_sums(int64_t offset);
unsigned char *acme_regs(int64_t offset);
unsigned char *acme_ddr(int64_t offset);
int acme_fetch(const void *src, int64_t src_stride, void *dst, int64_t dst_stride, int64_t row_bytes, int64_t rows, int queue);
int acme_wipe(void *dst, int64_t dst_stride, int64_t row_bytes, int64_t rows, int queue);
#define ACME_DOT(T) int acme_dot_##T(const void *a, const void *b, void *c, int64_t a_stride, int64_t b_stride, int64_t c_stride, int a_transposed, int b_transposed, int c_type, int m, int k, int n, int accumulate, int queue)
ACME_DOT(float32);
ACME_DOT(float16);
int acme_fill_float32(double value, void *dst, int64_t dst_row, int64_t dst_col, int64_t rows, int64_t cols, int queue);
int acme_copy(const void *x, int64_t x_row, int64_t x_col, void *dst, int64_t dst_row, int64_t dst_col, int64_t rows, int64_t cols, int type, int queue);
void acme_raise(int flag, int src, int dst);
void acme_await(int flag, int src, int dst);
void acme_drain(void);
void acme_meet(void);
"""


@pytest.fixture
def acme(tmp_path, monkeypatch):
    """The folder with the three files, whose header is trusted however it is edited."""
    monkeypatch.setenv("SEPTRAN_DSA_TRUST", "all")
    (tmp_path / "acme-one.yaml").write_text(MACHINE)
    (tmp_path / "acme.h").write_text(HEADER)
    text = (mappings_root() / "dsa-sim.mapping.yaml").read_text()
    named = re.sub(r"^machine: .*$", "machine: acme-one.yaml", text, flags=re.MULTILINE)
    (tmp_path / "acme.mapping.yaml").write_text(named)
    return tmp_path


def compiled(folder):
    machine = load_machine(folder / "acme-one.yaml")
    return septran.compile("gemm", folder / "acme.mapping.yaml", machine=machine)


def check(kernel, random, m=70, n=50, k=90):
    a = random.standard_normal((m, k), np.float32)
    b = random.standard_normal((k, n), np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = (k + 2) * 2.0**-24 * (abs(a).astype(np.float64) @ abs(b).astype(np.float64))
    assert (abs(kernel(a, b) - exact) <= bound).all()


def test_it_computes_with_no_python_of_its_own(acme, random):
    kernel = compiled(acme)
    check(kernel, random)
    text = str(kernel.stages.source)
    assert '#include "acme.h"' in text
    assert "vendor_lib" not in text
    assert re.search(r"acme_dot_float32\(\w+( \+ [^,]+)?, \w+", text)
    assert re.search(r"acme_await\(\d, \d, \d\);", text)


def test_the_route_without_a_compiler_records_the_same(acme, random, monkeypatch):
    by_c = compiled(acme)
    check(by_c, random)
    monkeypatch.setenv("SEPTRAN_DSA_CC", "none")
    monkeypatch.setenv("SEPTRAN_CACHE", "0")
    assert toolchain.compiler() is None
    by_llvm = compiled(acme)
    check(by_llvm, random)
    streams = [k.stages.executable.stream().tobytes() for k in (by_c, by_llvm)]
    assert streams[0] == streams[1]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("int64_t row_bytes, int64_t rows, int queue);\nint acme_wipe",
         "int64_t row_bytes, int64_t rows);\nint acme_wipe", "acme_fetch"),
        ("void acme_raise(int flag", "void acme_raise(int64_t flag", "acme_raise"),
        ("void acme_drain(void)", "int acme_drain(void)", "acme_drain"),
        ("const void *x, int64_t x_row", "void *x, int64_t x_row", "acme_copy"),
        ("ACME_DOT(float32);", "", "acme_dot_float32"),
    ],
)  # fmt: skip
def test_a_header_that_disagrees_is_an_error_of_c(acme, random, monkeypatch, old, new, said):
    monkeypatch.setenv("SEPTRAN_CACHE", "0")
    header = acme / "acme.h"
    assert header.read_text().count(old) == 1
    header.write_text(header.read_text().replace(old, new))
    with pytest.raises(CompileError) as caught:
        check(compiled(acme), random)
    assert said in str(caught.value)
    assert "/header-" not in str(caught.value)  # the user's file, not the compiler's copy of it
    assert (f"{header}:" in str(caught.value)) == bool(new)  # what is missing is the kernel's error
    assert "compare the vendor section of the machine file with the vendor's header" in str(
        caught.value
    )


def test_a_header_needs_no_guard(acme, random, monkeypatch):
    monkeypatch.setenv("SEPTRAN_CACHE", "0")
    header = acme / "acme.h"
    header.write_text(header.read_text().replace("#pragma once", ""))
    check(compiled(acme), random)


def test_a_header_that_changes_is_read_again(acme, random):
    check(compiled(acme), random)
    header = acme / "acme.h"
    header.write_text(header.read_text().replace("void acme_drain(void)", "int acme_drain(void)"))
    with pytest.raises(CompileError, match="acme_drain"):
        check(compiled(acme), random)
