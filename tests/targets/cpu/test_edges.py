"""What is left of rows and columns: nothing is read or written where there is nothing."""

from __future__ import annotations

import pytest

import septran
from septran import operators
from septran.errors import SepTranError
from septran.fuzz import executors, make_case
from tests.targets.cpu.between_guards import check_between_guards

pytestmark = pytest.mark.both_widths

SEEDS = 16
"""Of random programs between guard pages."""
PRODUCTS = [  # M, N, K: columns that are left differ from block to block
    (131, 67, 1021, "float32", {}),
    (61, 282, 817, "float16", {}),
    (199, 108, 864, "float32", {}),
    (37, 131, 70, "float64", {}),
    (200, 131, 70, "float64", {"trans_b": True}),  # vectors of a panel that has no column of them
]
IMAGES = [  # B, C, H, W, O, R, S and the tunables
    ((1, 3, 13, 14, 5, 2, 2), {"block_M": 3, "block_N": 3, "block_K": 8}),  # panels of three
    ((2, 5, 9, 10, 17, 3, 3), {}),
]

CONVERT = """
from septran import task

@task.define(leaf=True)
def tile(Y, X):
    Y[:, :] = X

@task.define
def convert(Y: task.Tensor["M", "N", task.{narrow}], X: task.Tensor["M", "N"]):
    whole = (task.tunable("block_M", 1), X.shape[1])
    Yp, Xp = task.partition(Y, shape=whole), task.partition(X, shape=whole)
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(tile, Yp[i, 0], Xp[i, 0])
"""


ACROSS = """
from septran import task

@task.define(leaf=True)
def tile(Y, X):
    t = task.empty(X.shape, X.dtype)
    t[:, :] = X
    Y[:, :] = task.minimum(X, t)

@task.define
def across(Y: task.Tensor["N", "M", task.float32], X: task.Tensor["M", "N"]):
    shape = (task.tunable("block_M", 8), task.tunable("block_N", 32))
    Yp, Xp = task.partition(Y.T, shape=shape), task.partition(X, shape=shape)
    for i, j in task.parallel_range(Yp.shape):
        task.launch(tile, Yp[i, j], Xp[i, j])
"""


@pytest.mark.one_in(9)
@pytest.mark.parametrize(("m", "n", "k", "dtype", "flags"), PRODUCTS, ids=str)
def test_ragged_columns_read_no_panel_that_is_not_there(m, n, k, dtype, flags):
    sizes = {"M": m, "N": n, "K": k}
    check_between_guards("gemm", "cpu-x86", shapes=sizes, dtypes=dtype, static=flags)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("int32", "int8"), ("int64", "int32"), ("int32", "uint16"), ("float32", "bfloat16"),
     ("float64", "float16")],
)  # fmt: skip
@pytest.mark.parametrize("columns", [1, 17])
def test_one_element_that_is_left_is_stored_as_narrow_as_it_is(wide, narrow, columns, tmp_path):
    """LLVM stores the only lane of a constant mask in the type that it was cut from."""
    file = tmp_path / "convert.py"
    file.write_text(CONVERT.format(narrow=narrow), encoding="utf-8")
    shapes = {"M": 3, "N": columns}
    kernel = septran.compile(file, "cpu-x86", shapes=shapes, dtypes=wide)
    kernel.check().raise_if_wrong()


def test_lanes_that_are_stored_one_by_one_are_those_of_one_vector(tmp_path):
    """The count of columns that are left is more than a vector's where several vectors are left."""
    file = tmp_path / "across.py"
    file.write_text(ACROSS, encoding="utf-8")
    check_between_guards(file, "cpu-x86", shapes={"M": 8, "N": 65}, tunables={"block_N": 32})


@pytest.mark.one_in(6)
@pytest.mark.parametrize("operator", ["conv2d", "conv2d_nhwc"])
@pytest.mark.parametrize(("sizes", "tunables"), IMAGES, ids=str)
def test_ragged_images_are_read_within_themselves(operator, sizes, tunables):
    shapes = dict(zip("BCHWORS", sizes, strict=True))
    check_between_guards(operator, "cpu-x86", shapes=shapes, tunables=tunables)


@pytest.mark.slow
@pytest.mark.parametrize("name", operators.names())
def test_every_operator_stays_within_its_buffers(name):
    """Of each the case whose extents are the most ragged, the last."""
    case = operators.cases(name)[-1]
    check_between_guards(name, "cpu-x86", shapes=case.sizes, static=case.static, dtypes=case.dtype)


@pytest.mark.one_in(2, first=1)
def test_a_filter_of_one_row_is_packed_into_its_own_panel():
    """Elements that are a panel's width apart were written beyond it."""
    shapes = {"B": 2, "C": 1, "H": 8, "W": 14, "O": 1, "R": 3, "S": 3}
    kernel = septran.compile(
        "conv2d", "cpu-x86", shapes=shapes, static={"stride": 2},
        tunables={"block_M": 8, "block_N": 1, "block_K": 3},
    )  # fmt: skip
    kernel.check().raise_if_wrong()
    kernel.check(guard=True).raise_if_wrong()


@pytest.mark.one_in(2, first=1)
def test_a_short_row_across_panels_stays_within_them():
    """A whole vector was written where the row's elements are a panel's width apart."""
    shapes = {"M": 8, "N": 16, "K": 2}
    check_between_guards("fp8_gemm", "cpu-x86", shapes=shapes, tunables={"block_N": 1})


@pytest.mark.slow
def test_random_programs_stay_within_their_buffers(tmp_path):
    ran = 0
    for seed in range(SEEDS):
        files = executors.CaseFiles.write(make_case(seed), tmp_path / str(seed))
        try:
            kernel = executors._kernel(files, "cpu-x86", executors._cpu_machine(files), guard=True)
        except SepTranError:
            continue
        kernel.check(*files.case.arrays().values(), guard=True).raise_if_wrong()
        ran += 1
    assert ran > SEEDS * 0.75
