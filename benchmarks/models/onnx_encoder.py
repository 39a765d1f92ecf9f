"""The encoder for onnxruntime, in the fused operators that its own optimiser makes of BERT."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.models.minilm import EPS, HEADS, LAYERS, Weights


class Graph:
    """Nodes and weights of a graph, in the order in which they are added."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self._helper, self._values = helper, numpy_helper
        self.nodes: list[object] = []
        self.weights: list[object] = []

    def weight(self, name: str, value: Tensor | np.ndarray) -> str:
        """Keep a constant; return its name."""
        array = np.ascontiguousarray(value.numpy() if isinstance(value, Tensor) else value)
        self.weights.append(self._values.from_array(array, name))
        return name

    def node(self, operator: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        """Add an operator of onnxruntime's own, or of ONNX with ``ai.onnx`` as domain."""
        domain = str(attributes.pop("domain", "com.microsoft"))
        names = [f"{operator}_{len(self.nodes)}_{n}" for n in range(outputs)]
        made = self._helper.make_node(operator, inputs, names, domain=domain, **attributes)
        self.nodes.append(made)
        return names[0]

    def model(self, result: str) -> bytes:
        """The whole model, from token numbers and lengths to `result`."""
        from onnx import TensorProto

        info = self._helper.make_tensor_value_info
        graph = self._helper.make_graph(
            self.nodes, "encoder",
            [
                info("ids", TensorProto.INT32, ["B", "L"]),
                info("mask", TensorProto.INT32, ["B", "L"]),
                info("lengths", TensorProto.INT32, ["B"]),
            ],
            [info(result, TensorProto.FLOAT, ["B", None])], self.weights,
        )  # fmt: skip
        opsets = [self._helper.make_opsetid(d, v) for d, v in (("", 17), ("com.microsoft", 1))]
        made = self._helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return bytes(made.SerializeToString())


def graph(weights: Weights) -> bytes:
    """The model: words and places, six layers, the mean, length 1."""
    g = Graph()

    def pair(prefix: str) -> list[str]:
        return [g.weight(f"{prefix}.{k}", weights[f"{prefix}.{k}"]) for k in ("weight", "bias")]

    def matrix(prefix: str) -> str:
        return g.weight(f"{prefix}.weight", weights[f"{prefix}.weight"].T)

    tables = [
        g.weight(n, weights[f"embeddings.{n}_embeddings.weight"])
        for n in ("word", "position", "token_type")
    ]
    norm = pair("embeddings.LayerNorm")
    x = g.node("EmbedLayerNormalization", "ids", "", *tables, *norm, outputs=2, epsilon=EPS)
    for n in range(LAYERS):
        layer = f"encoder.layer.{n}"
        parts = [f"{layer}.attention.self.{p}" for p in ("query", "key", "value")]
        qkv = g.weight(f"{layer}.qkv.w", torch.cat([weights[f"{p}.weight"].T for p in parts], 1))
        bias = g.weight(f"{layer}.qkv.b", torch.cat([weights[f"{p}.bias"] for p in parts]))
        seen = g.node("Attention", x, qkv, bias, "lengths", num_heads=HEADS)
        x = _added(g, x, seen, f"{layer}.attention.output", matrix, pair, weights)
        up = f"{layer}.intermediate.dense"
        inner = g.node("MatMul", x, matrix(up), domain="")
        inner = g.node("BiasGelu", inner, g.weight(f"{up}.bias", weights[f"{up}.bias"]))
        x = _added(g, x, inner, f"{layer}.output", matrix, pair, weights)
    mask = g.node("Cast", "mask", to=1, domain="")
    mask = g.node("Unsqueeze", mask, g.weight("two", np.array([2])), domain="")
    axis = g.weight("one", np.array([1]))
    total = g.node("ReduceSum", g.node("Mul", x, mask, domain=""), axis, domain="", keepdims=0)
    count = g.node("ReduceSum", mask, axis, domain="", keepdims=0)
    mean = g.node("Div", total, count, domain="")
    return g.model(g.node("LpNormalization", mean, domain="", axis=1))


def rounded(model: bytes) -> bytes:
    """The same with weights of 8 bits, a scale an output, and activations of 8 bits."""
    import onnx
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "rounded.onnx"
        quantization.quantize_dynamic(
            onnx.load_from_string(model), found, ["MatMul", "Attention"], per_channel=True,
            weight_type=quantization.QuantType.QInt8,
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )  # fmt: skip
        return found.read_bytes()


def _added(
    g: Graph,
    x: str,
    inner: str,
    prefix: str,
    matrix: Callable[[str], str],
    pair: Callable[[str], list[str]],
    weights: Weights,
) -> str:
    """Multiply `inner`, add it and a bias to `x`, and normalise."""
    product = g.node("MatMul", inner, matrix(f"{prefix}.dense"), domain="")
    bias = g.weight(f"{prefix}.dense.bias", weights[f"{prefix}.dense.bias"])
    norm = pair(f"{prefix}.LayerNorm")
    return g.node("SkipLayerNormalization", product, x, *norm, bias, epsilon=EPS)


class OnnxEncoder:
    """The model in a session of onnxruntime with so many threads."""

    def __init__(self, model: bytes, threads: int, spinning: bool = False) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        if not spinning:
            # Threads that spin after a call would take the processor from whom is measured next.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])

    def __call__(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return the sentences' vectors."""
        mask = torch.arange(ids.shape[1]) < lengths[:, None]
        given = {"ids": ids.int().numpy(), "mask": mask.int().numpy()}
        (found,) = self.session.run(None, given | {"lengths": lengths.int().numpy()})
        return torch.from_numpy(found)
