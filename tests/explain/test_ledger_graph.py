"""The ledger as a graph: nothing is lost, and data flows from left to right."""

from __future__ import annotations

import json

import pytest

import septran
from septran.views.pictures.ledger_graph import ledger_graph

SIZES = {
    "gemm": {"M": 256, "N": 256, "K": 256},
    "attention": {"B": 1, "H": 2, "G": 2, "M": 256, "N": 256, "D": 64},
}


@pytest.fixture(
    scope="module",
    params=[("gemm", "npu-cube"), ("attention", "dsa-sim"), ("gemm", "nvidia-h200")],
    ids="-".join,
)
def found(request):
    name, machine = request.param
    sizes = {k: n for k, n in SIZES[name].items() if k != "G"}
    return septran.explain(name, machine, shapes=sizes).ledger


def test_bands_hold_all_bytes(found):
    data = ledger_graph(found)
    for edge, moved in found.edges.items():
        bands = [b for b in data["bands"] if f"{b['source']} -> {b['target']}" == edge]
        assert sum(b["total"] for b in bands) == moved
    assert sum(b["copies"] for b in data["bands"]) == len(found.rows)


def test_both_ends_of_a_band_are_columns_on_its_side_in_order(found):
    data = ledger_graph(found)
    for band in data["bands"]:
        columns = data["columns"][band["way"]]
        at = {name: n for n, names in enumerate(columns) for name in names}
        assert at[band["source"]] < at[band["target"]]


def test_main_memory_is_the_first_and_the_last_column(found):
    data = ledger_graph(found)
    assert data["columns"]["in"][0] == [found.main_memory]
    assert data["columns"]["out"][-1] == [found.main_memory]
    assert json.loads(json.dumps(data)) == data


def test_exploring_has_the_data_and_the_static_rows(found):
    pytest.importorskip("anywidget")
    view = found.explore()
    assert view.data == ledger_graph(found)
    assert "<table" in view.static
