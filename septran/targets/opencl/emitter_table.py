"""The one table of emitters for OpenCL C: what every device has, and no more."""

from __future__ import annotations

from types import MappingProxyType

from septran.targets.cuda.copy.copies import emit_statements
from septran.targets.cuda.emitter_table import EMITTERS as CUDA
from septran.targets.cuda.emitter_table import CudaEmitters
from septran.targets.cuda.gemm.simt import demand_simt, emit_simt
from septran.tile.nodes import Barrier, For

EMITTERS = CudaEmitters(
    nodes=MappingProxyType({kind: CUDA.nodes[kind] for kind in (For, Barrier)}),
    copies=MappingProxyType({"load_store": emit_statements}),
    computes=MappingProxyType(
        {"fragment": emit_statements, "atomic_add": emit_statements, "simt": emit_simt}
    ),
    demands=MappingProxyType({"simt": demand_simt}),
)
