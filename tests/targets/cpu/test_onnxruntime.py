"""The page of C in docs/export.md: a library's kernel as an operator of ONNX Runtime."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import septran

PAGE = Path(__file__).parents[3] / "docs/export.md"
FUNCTIONS = {
    0: ("OrtStatus *", "CreateStatus", "int code, const char *"),
    26: ("OrtStatus *", "CreateCustomOpDomain", "const char *, OrtCustomOpDomain **"),
    27: ("OrtStatus *", "CustomOpDomain_Add", "OrtCustomOpDomain *, const OrtCustomOp *"),
    28: ("OrtStatus *", "AddCustomOpDomain", "OrtSessionOptions *, OrtCustomOpDomain *"),
    51: ("OrtStatus *", "GetTensorMutableData", "OrtValue *, void **"),
    61: ("OrtStatus *", "GetDimensionsCount", "const OrtTensorTypeAndShapeInfo *, size_t *"),
    62: ("OrtStatus *", "GetDimensions", "const OrtTensorTypeAndShapeInfo *, int64_t *, size_t"),
    65: ("OrtStatus *", "GetTensorTypeAndShape", "const OrtValue *, OrtTensorTypeAndShapeInfo **"),
    85: ("OrtStatus *", "KernelInfoGetAttribute_float",
         "const OrtKernelInfo *, const char *, float *"),
    90: ("OrtStatus *", "KernelContext_GetInput",
         "const OrtKernelContext *, size_t, const OrtValue **"),
    91: ("OrtStatus *", "KernelContext_GetOutput",
         "OrtKernelContext *, size_t, const int64_t *, size_t, OrtValue **"),
    99: ("void", "ReleaseTensorTypeAndShapeInfo", "OrtTensorTypeAndShapeInfo *"),
}  # fmt: skip
"""Of the table that the runtime hands out those that the page calls, by their places in it."""
OPAQUE = [
    "Api", "Status", "CustomOp", "CustomOpDomain", "SessionOptions", "Value", "KernelInfo",
    "KernelContext", "TensorTypeAndShapeInfo",
]  # fmt: skip
OPERATOR = """
typedef int OrtMemType, ONNXTensorElementDataType, OrtCustomOpInputOutputCharacteristic;
enum { OrtMemTypeDefault = 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1, INPUT_OUTPUT_REQUIRED = 0 };
enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2 };
typedef struct {
  const OrtApi *(*GetApi)(uint32_t);
  const char *(*GetVersionString)(void);
} OrtApiBase;
struct OrtCustomOp {
  uint32_t version;
  void *(*CreateKernel)(const OrtCustomOp *, const OrtApi *, const OrtKernelInfo *);
  const char *(*GetName)(const OrtCustomOp *);
  const char *(*GetExecutionProviderType)(const OrtCustomOp *);
  int (*GetInputType)(const OrtCustomOp *, size_t);
  size_t (*GetInputTypeCount)(const OrtCustomOp *);
  int (*GetOutputType)(const OrtCustomOp *, size_t);
  size_t (*GetOutputTypeCount)(const OrtCustomOp *);
  void (*KernelCompute)(void *, OrtKernelContext *);
  void (*KernelDestroy)(void *);
  int (*GetInputCharacteristic)(const OrtCustomOp *, size_t);
  int (*GetOutputCharacteristic)(const OrtCustomOp *, size_t);
  int (*GetInputMemoryType)(const OrtCustomOp *, size_t);
  int (*of_variadic_operands[4])(const OrtCustomOp *);
  OrtStatus *(*CreateKernelV2)(const OrtCustomOp *, const OrtApi *, const OrtKernelInfo *, void **);
  OrtStatus *(*KernelComputeV2)(void *, OrtKernelContext *);
};
"""


def header():
    """Declarations of what the page uses of the runtime's interface of version 16."""
    lines = ["#include <stddef.h>", "#include <stdint.h>"]
    lines += [f"typedef struct Ort{name} Ort{name};" for name in OPAQUE]
    lines += [OPERATOR, "struct OrtApi {"]
    for (before, _), (place, (result, name, given)) in itertools.pairwise(
        [(-1, ()), *FUNCTIONS.items()]
    ):
        if place > before + 1:
            lines.append(f"  void (*others_{place}[{place - before - 1}])(void);")
        lines.append(f"  {result} (*{name})({given});")
    return "\n".join([*lines, "};", ""])


def blocks(language):
    text = PAGE.read_text(encoding="utf-8")
    part = text[text.index("## As an operator of ONNX Runtime") : text.index("## Limits")]
    return re.findall(rf"^```{language}\n(.*?)^```", part, re.S | re.M)


def model():
    """Rows above zero, normalised, and 1 more."""
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("RmsNorm", ["h", "w"], ["n"], domain="mylib", eps=1e-6),
        helper.make_node("Add", ["n", "one"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    inputs = [info("x", TensorProto.FLOAT, ["M", "N"]), info("w", TensorProto.FLOAT, [64])]
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    graph = helper.make_graph(nodes, "g", inputs, [info("y", TensorProto.FLOAT, None)], [one])
    opsets = [helper.make_opsetid(*pair) for pair in (("", 17), ("mylib", 1))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.slow
@pytest.mark.one_width
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_a_session_calls_a_library(tmp_path, monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime", reason="comes with septran[models]")
    monkeypatch.chdir(tmp_path)
    norm = septran.compile(
        "rms_norm", "cpu-x86", shapes={"M": 7, "N": 64}, dynamic={"M": (1, 4096)}
    )
    septran.export([norm], "mylib", name="mylib")
    (tmp_path / "include").mkdir()
    (tmp_path / "include/onnxruntime_c_api.h").write_text(header())
    (tmp_path / "ort.c").write_text(blocks("c")[0])
    warned = blocks("sh")[0].replace("cc ", "cc -Wall -Wextra -Werror ", 1)
    subprocess.run(["sh", "-ec", f"ONNXRUNTIME=.\n{warned}"], check=True)
    (tmp_path / "model.onnx").write_bytes(model())
    found = {"onnxruntime": onnxruntime}
    exec(blocks("python")[0], found)
    rng = np.random.default_rng(0)
    w = rng.standard_normal(64).astype("float32")
    for count in (1, 7, 300):
        x = rng.standard_normal((count, 64)).astype("float32")
        (y,) = found["session"].run(None, {"x": x, "w": w})
        h = np.maximum(x, 0).astype("float64")
        exact = h / np.sqrt((h * h).mean(1, keepdims=True) + 1e-6) * w + 1
        # A sum of 64 products, a root, a quotient, two more products and a sum, in float32.
        assert np.abs(y - exact).max() < 2**-24 * (64 + 8) * np.abs(exact).max()
    errors = onnxruntime.capi.onnxruntime_pybind11_state
    for shape, error, said in (
        ((4097, 64), errors.Fail, "beyond those that the kernel was made for"),
        ((3, 65), errors.InvalidArgument, "[M, 64], [64]"),
    ):
        with pytest.raises(error, match=re.escape(said)):
            found["session"].run(None, {"x": np.ones(shape, "float32"), "w": w})
