"""Task Lang, the language in which an algorithm expert writes the logic of an operator.

from septran import task

@task.define(leaf=True)
def gemm_tile(C, A, B):
    task.call_primitive("gemm", C, A, B)
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from septran.dtypes import accumulator_dtype, compute_dtype, is_float
from septran.task.frontend.conditions import count, when
from septran.task.frontend.definition import (
    In,
    InOut,
    Integer,
    Out,
    Task,
    Tensor,
    define,
    static,
)
from septran.task.frontend.extents import ceiling as cdiv
from septran.task.frontend.extents import greatest, least
from septran.task.frontend.functions import (
    abs,
    ceil,
    cos,
    equal,
    erf,
    exp,
    exp2,
    floor,
    floor_divide,
    gelu,
    log,
    log2,
    max,
    maximum,
    min,
    minimum,
    power,
    relu,
    round,
    rsqrt,
    sigmoid,
    silu,
    sin,
    sqrt,
    sum,
    tanh,
    where,
)
from septran.task.frontend.language import (
    call_primitive,
    copy,
    empty,
    fill,
    full,
    gather,
    index,
    parallel_range,
    partition,
    require,
    sequential_range,
    solve_triangular,
    sort,
    start,
    topk,
    tunable,
    window,
    zeros,
)
from septran.task.frontend.loader import find_entry, load_entry, load_logic
from septran.task.frontend.positions import argmax, argmin, inside
from septran.task.frontend.python_errors import unknown_attribute
from septran.task.frontend.reductions import reduce_into
from septran.task.frontend.scans import cumprod, cumsum, scan
from septran.task.reference import run, run_tree
from septran.task.trace.chooser import Chooser, DefaultChooser, LaunchSite
from septran.task.trace.inference import complete, infer_outputs, written
from septran.task.trace.tracing import launch, trace
from septran.task.tree import TaskTree

float16, bfloat16, float32, float64 = "float16", "bfloat16", "float32", "float64"
float8_e4m3fn = "float8_e4m3fn"
int8, int16, int32, int64 = "int8", "int16", "int32", "int64"
uint8, uint16, uint32, uint64 = "uint8", "uint16", "uint32", "uint64"
inf = float("inf")

__all__ = [
    "Chooser", "DefaultChooser", "In", "InOut", "Integer", "LaunchSite", "Out", "Task", "TaskTree",
    "Tensor", "abs", "accumulator_dtype", "argmax", "argmin", "bfloat16", "call_primitive", "cdiv",
    "ceil", "complete", "compute_dtype", "copy", "cos",
    "count", "cumprod", "cumsum", "define", "empty", "equal",
    "erf", "exp", "exp2", "fill", "find_entry", "float8_e4m3fn", "float16", "float32", "float64",
    "floor", "floor_divide", "full", "gather", "gelu", "greatest", "index", "inf", "infer_outputs",
    "inside", "int8", "int16", "int32", "int64", "is_float", "launch", "least", "load_entry",
    "load_logic", "log", "log2", "max", "maximum", "min", "minimum", "parallel_range", "partition",
    "power", "reduce_into", "relu", "require", "round", "rsqrt", "run", "run_tree", "scan",
    "sequential_range", "sigmoid", "silu", "sin", "solve_triangular", "sort", "sqrt", "start",
    "static", "sum", "tanh", "topk", "trace",
    "tunable", "uint8", "uint16", "uint32", "uint64", "when", "where", "window", "written", "zeros",
]  # fmt: skip

if not TYPE_CHECKING:  # else every attribute would be there for a type checker

    def __getattr__(name: str) -> Any:
        """Only called for what the language does not have; raises."""
        if find_spec(f"{__name__}.{name}"):  # asked by an import of this very module
            raise AttributeError(name)
        raise unknown_attribute("task", name, __all__)
