"""The one table of emitters for AMD's GPUs."""

from __future__ import annotations

from types import MappingProxyType

from septran.targets.cuda.copy.copies import emit_statements
from septran.targets.cuda.emitter_table import EMITTERS as CUDA
from septran.targets.cuda.emitter_table import CudaEmitters
from septran.targets.cuda.gemm.simt import demand_simt, emit_simt
from septran.targets.rocm.copy import in_flight
from septran.targets.rocm.gemm import mfma
from septran.tile.nodes import Acquire, Commit, Wait

EMITTERS = CudaEmitters(
    nodes=MappingProxyType(
        {
            **CUDA.nodes,
            Acquire: in_flight.acquire,
            Commit: in_flight.commit,
            Wait: in_flight.wait,
        }
    ),
    copies=MappingProxyType({"load_store": emit_statements, in_flight.NAME: in_flight.copy}),
    computes=MappingProxyType(
        {
            "fragment": emit_statements,
            "atomic_add": emit_statements,
            "simt": emit_simt,
            **dict.fromkeys(mfma.NAMES, mfma.gemm),
        }
    ),
    demands=MappingProxyType({"simt": demand_simt, **dict.fromkeys(mfma.NAMES, mfma.demands)}),
)
