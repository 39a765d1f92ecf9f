"""Reductions over small windows are written out, so that vectors go along the windows."""

from __future__ import annotations

import pytest

import septran
from septran import task
from septran.ir import expressions as ex
from septran.targets.cpu.map.windows import written_out
from septran.tile.nodes import Compute, nodes
from tests.targets.cpu.between_guards import check_between_guards


@task.define(leaf=True)
def each(Y, X, *, kind: task.static):
    """Some function of all windows of some rows."""
    if kind == "sum":
        Y[:, :] = task.sum(X, axis=(2, 3))
    elif kind == "padded max":
        Y[:, :] = task.max(task.where(task.inside(X), X, -task.inf), axis=(2, 3))
    elif kind == "weighted":
        weight = task.index(X, 3)[None, None, None, :] + 2 * task.index(X, 2)[None, None, :, None]
        Y[:, :] = task.exp(task.sum(X * weight, axis=(2, 3)) * 0.01)
    elif kind == "min of sums":
        Y[:, :] = task.min(task.sum(X, axis=3), axis=2)
    else:
        Y[:, :] = task.sum(X > 0, axis=(2, 3))


@task.define
def filtered(
    Y: task.Out["(H + 2*padding - R) // stride + 1", "(W + 2*padding - R) // stride + 1"],
    X: task.In["H", "W"],
    *,
    kind: task.static = "sum",
    R: task.static = 3,
    stride: task.static = 1,
    padding: task.static = 0,
):
    """Windows of R x R."""
    windows = task.window(X, (R, R), stride, padding)
    tile = (task.tunable("block_M", 4), task.tunable("block_N", 40))
    Yp, Xp = task.partition(Y, shape=tile), task.partition(windows, shape=(*tile, R, R))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(each, Yp[i, j], Xp[i, j, 0, 0], kind=kind)


KINDS = ("sum", "padded max", "weighted", "min of sums", "count")
FLAGS = ({}, {"padding": 1}, {"stride": 2, "padding": 2, "R": 4}, {"R": 7, "padding": 3})


def asked(kind, flags, dtype):
    return {"shapes": {"H": 11, "W": 83}, "static": {"kind": kind, **flags}, "dtypes": dtype}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.one_in(2)
def test_windows_are_reduced_rightly(kind, vectors):
    del vectors
    kernel = septran.compile(filtered, "cpu-x86", **asked(kind, FLAGS[2], "float32"))
    kernel.check().raise_if_wrong()


MORE = [(kind, FLAGS[2], dtype) for kind in KINDS for dtype in ("float32", "float16", "int8")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "flags", "dtype"),
    [one for one in MORE if (one[0], one[2]) != ("padded max", "int8")]  # no integer is -inf
    + [("padded max", flags, "float32") for flags in FLAGS],
    ids=str,
)
def test_all_windows_are_reduced_within_their_buffers(kind, flags, dtype, vectors):
    del vectors
    check_between_guards(filtered, **asked(kind, flags, dtype))


def expression(logic, sizes, **static):
    """What the leaf of a program computes, as it is and with windows written out."""
    program = septran.produce_stages(logic, "cpu-x86", shapes=sizes, static=static).tile_program
    found = [n.expression for n in nodes(program.body) if isinstance(n, Compute) and n.expression]
    return found[-1], written_out(found[-1])


def reductions(expr):
    return [node for node in ex.walk(expr) if isinstance(node, ex.Reduce)]


@pytest.mark.parametrize(("taps", "left"), [(1, 0), (4, 0), (64, 0), (65, 1)])
def test_few_taps_are_written_out(taps, left):
    sizes = {"B": 1, "C": 8, "N": 96, "R": taps}
    plain, out = expression("causal_conv1d", sizes, act="none")
    assert len(reductions(plain)) == 1
    assert len(reductions(out)) == left
    assert (out.shape, out.valid, out.dtype) == (plain.shape, plain.valid, plain.dtype)


def test_all_axes_of_a_window_are_written_out_or_none():
    sizes = {"B": 1, "C": 2, "H": 30, "W": 30}
    for size, left in ((3, 0), (8, 0), (9, 2)):
        plain, out = expression("pool2d", sizes, size=size, function="mean")
        assert (len(reductions(plain)), len(reductions(out))) == (2, left)


def test_what_occurs_twice_is_written_out_once():
    """silu(x) is x * sigmoid(x), and both are of one sum."""
    _, out = expression("causal_conv1d", {"B": 1, "C": 8, "N": 64, "R": 4}, act="silu")
    loads = [node for node in ex.walk(out) if isinstance(node, ex.Load) and node.view.buffer == "X"]
    assert (len(loads), len({id(node) for node in loads})) == (8, 4)


def test_rows_are_no_windows():
    plain, out = expression("reduce", {"M": 8, "N": 4})
    assert out == plain


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_few_filters_of_many_pixels_read_windows_in_place(dtype):
    """Rules for products of few rows are not for windows, of which every pixel is in nine."""
    shapes = {"B": 1, "C": 64, "H": 56, "W": 56, "O": 64, "R": 3, "S": 3}
    stages = septran.produce_stages(
        "conv2d", "cpu-x86", shapes=shapes, dtypes=dtype, static={"padding": 1}
    )
    core = [b for b in stages.tile_program.buffers if b.memory == "L2"]
    assert [b.shape for b in core if b.shape[-1] > 576] == []
