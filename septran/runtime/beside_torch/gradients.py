"""torch's own gradients of operators whose backward is a logic of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

NamedFunction = tuple[str, Callable[..., Any]]


def rope_backward(_: Mapping[str, Any]) -> NamedFunction:
    """Rotate back: the products and the concatenation that autograd would write, too."""
    import torch

    def call(cos: Any, sin: Any, dy: Any) -> Any:
        low, high = dy.chunk(2, -1)
        cos, sin = cos[:, None], sin[:, None]
        return torch.cat((low * cos + high * sin, high * cos - low * sin), -1)

    return "torch.mul, cat", call


def logsumexp_backward(_: Mapping[str, Any]) -> NamedFunction:
    """What torch's derivatives.yaml names for it."""

    def call(x: Any, y: Any, dy: Any) -> Any:
        return (x - y[:, None]).exp_().mul_(dy[:, None])

    return "torch's gradient of logsumexp", call


def cumsum_backward(static: Mapping[str, Any]) -> NamedFunction:
    """A cumulative sum of the flipped slopes."""
    import torch

    reverse, exclusive = static.get("reverse", False), static.get("exclusive", False)

    def call(dy: Any) -> Any:
        found = torch.cumsum(dy if reverse else dy.flip(1), 1)
        found = found if reverse else found.flip(1)
        return found - dy if exclusive else found

    return "torch.cumsum, flipped", call


def cross_entropy_backward(_: Mapping[str, Any]) -> NamedFunction:
    """Autograd's, with the forward: ours computes the log-sum-exp again."""
    import torch

    def call(x: Any, target: Any, dloss: Any) -> Any:
        with torch.inference_mode(mode=False), torch.enable_grad():
            given = x.detach().requires_grad_()
            loss = torch.nn.functional.cross_entropy(
                given, target, reduction="none", ignore_index=-100
            )
            return torch.autograd.grad(loss, given, dloss)[0]

    return "torch.autograd of cross_entropy, with its forward", call


def linear_attention_backward(_: Mapping[str, Any]) -> NamedFunction:
    """The masked products, as torch has no causal linear attention."""
    import torch

    def call(q: Any, k: Any, v: Any, do: Any) -> tuple[Any, Any, Any]:
        scores, slopes = torch.tril(q @ k.mT), torch.tril(do @ v.mT)
        return slopes @ k, slopes.mT @ q, scores.mT @ do

    return "torch.matmul, tril", call


def swiglu_gates(_: Mapping[str, Any]) -> NamedFunction:
    """Both products, kept."""
    import torch

    def call(x: Any, w: Any, v: Any) -> tuple[Any, Any, Any]:
        gate, up = torch.mm(x, w), torch.mm(x, v)
        return torch.nn.functional.silu(gate) * up, gate, up

    return "torch.mm, twice, silu, mul", call


def swiglu_backward(_: Mapping[str, Any]) -> NamedFunction:
    """What autograd runs, given both gates."""
    import torch

    def call(x: Any, w: Any, v: Any, gate: Any, up: Any, dy: Any) -> tuple[Any, Any, Any]:
        dgate = torch.ops.aten.silu_backward(dy * up, gate)
        dup = dy * torch.nn.functional.silu(gate)
        dx = torch.mm(dgate, w.T).add_(torch.mm(dup, v.T))
        return dx, torch.mm(x.T, dgate), torch.mm(x.T, dup)

    return "torch.mm, four times, silu_backward", call


def conv2d_backward(static: Mapping[str, Any]) -> NamedFunction:
    """The gradient of torch by the input and by the filter."""
    import torch

    flags = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, **static}

    def call(x: Any, f: Any, dy: Any) -> tuple[Any, Any]:
        pairs = [[flags[name]] * 2 for name in ("stride", "padding", "dilation")]
        found = torch.ops.aten.convolution_backward(
            dy, x, f, None, *pairs, transposed=False, output_padding=[0, 0],
            groups=flags["groups"], output_mask=[True, True, False],
        )  # fmt: skip
        return found[0], found[1]

    return "torch's gradient of conv2d", call


def max_pool2d_indices_backward(static: Mapping[str, Any]) -> NamedFunction:
    """What torch's autograd calls, too: the forward is not run again."""
    import torch

    flags = {"size": 3, "stride": 2, "padding": 0, **static}
    size, stride, padding = ([flags[word]] * 2 for word in ("size", "stride", "padding"))

    def call(x: Any, index: Any, dy: Any) -> Any:
        function = torch.ops.aten.max_pool2d_with_indices_backward
        whole = {"ceil_mode": False, "indices": index}
        return function(dy, x, size, stride, padding, [1, 1], **whole)

    return "torch max_pool2d_with_indices_backward", call


def pool2d_backward(static: Mapping[str, Any]) -> NamedFunction:
    """Autograd's, with the forward, as that finds which elements are the greatest: so does ours."""
    import torch

    flags = {"function": "max", "size": 3, "stride": 2, "padding": 0, **static}
    name = {"max": "max_pool2d", "mean": "avg_pool2d"}[flags["function"]]
    function = getattr(torch.nn.functional, name)

    def call(x: Any, dy: Any) -> Any:
        with torch.inference_mode(mode=False), torch.enable_grad():
            given = x.detach().requires_grad_()
            y = function(given, *(flags[word] for word in ("size", "stride", "padding")))
            return torch.autograd.grad(y, given, dy)[0]

    return f"torch.autograd of {name}, with its forward", call
