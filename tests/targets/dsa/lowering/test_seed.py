"""The README's example: two DMA copies, one sync, one matrix product, and nothing else."""

from __future__ import annotations

import numpy as np

from septran import task
from septran.compiler import produce_stages
from septran.simulator import simulate
from septran.simulator.commands import CODES

MACHINE = """
name: bare-dsa
backend: dsa
processors:
  HOST: {}
  CORE: {count: 1, of: HOST}
memories:
  GLOBAL: {visible_to: HOST, bandwidth: 32B/cycle, latency: 200cycles}
  SPM: {visible_to: CORE, capacity: 64KiB}
engines:
  dma: {moves: [GLOBAL->SPM, SPM->GLOBAL], asynchronous: true, completes_by: sync}
instructions:
  mma:
    primitive: gemm
    tile: [16, 16, 16]
    dtypes: [[float32, float32, float32]]
    operands: {C: GLOBAL, A: SPM, B: SPM}
clock_mhz: 1000
vendor:
  header: vendor_dsa.h
  flags: 0
"""
MAPPING = """
machine: bare-dsa
rules:
  - match: {level: entry}
    proc: HOST
    mems: {"*": GLOBAL}
  - match: {loops: parallel}
    proc: CORE
  - match: {primitive: gemm}
    mems: {C: GLOBAL, A: SPM, B: SPM}
    binding: {gemm: mma}
"""


@task.define(leaf=True)
def gemm_leaf_logic(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define
def gemm_block_logic(C, A, B, *, steps: task.static):
    Ap = task.partition(A, shape=(A.shape[0], A.shape[1] // steps))
    Bp = task.partition(B, shape=(B.shape[0] // steps, B.shape[1]))
    for k in task.sequential_range(Ap.shape[1]):
        task.launch(gemm_leaf_logic, C, Ap[0, k], Bp[k, 0])


@task.define
def gemm(
    C: task.Tensor["M", "N"],
    A: task.Tensor["M", "K"],
    B: task.Tensor["K", "N"],
    *,
    steps: task.static = 1,
):
    Cp = task.partition(C, shape=(64, 64))
    Ap = task.partition(A, shape=(64, A.shape[1]))
    Bp = task.partition(B, shape=(B.shape[0], 64))
    for i, j in task.parallel_range(Cp.shape[0], Cp.shape[1]):
        task.launch(gemm_block_logic, Cp[i, j], Ap[i, 0], Bp[0, j], steps=steps)


def program_of(tmp_path, **options):
    machine, mapping = tmp_path / "bare-dsa.yaml", tmp_path / "bare.mapping.yaml"
    machine.write_text(MACHINE)
    mapping.write_text(MAPPING)
    return produce_stages(gemm, str(mapping), machine=str(machine), **options).tile_program


def names(stream):
    by_code = {code: name for name, code in CODES.items()}
    return [by_code[code] for code in stream["code"].tolist()]


def test_one_tile_is_the_example(tmp_path, walked, golden):
    program = program_of(tmp_path, shapes={"M": 64, "N": 64, "K": 64})
    stream = walked.record(program)
    assert names(stream) == ["dsa.dma_copy", "dsa.dma_copy", "dsa.sync", "dsa.mma"]
    golden.check(walked.script(program).replace(f"{tmp_path}/", ""), "one_tile")


def test_every_further_tile_waits_for_the_one_before(tmp_path, walked):
    sizes = {"M": 128, "N": 64, "K": 128}
    program = program_of(tmp_path, shapes=sizes, static={"steps": 2})
    stream = walked.record(program)
    assert names(stream).count("dsa.mma") == 4
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("f4") for s in ((128, 128), (128, 64)))
    c = np.ones((128, 64), "f4")
    simulate(program.machine, stream, [c, a, b])
    np.testing.assert_allclose(c, 1 + a.astype(float) @ b, rtol=1e-4, atol=1e-4)
