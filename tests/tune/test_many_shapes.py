"""One dispatch file for many shapes: where a case is made, and where it does not pay."""

from __future__ import annotations

import math

import pytest
from typer.testing import CliRunner

import septran
from septran.argument_checks import WrongArgumentError
from septran.cli import app
from septran.compiler import fitted
from septran.errors import SepTranError
from septran.request import CompileRequest
from septran.tuning import open_space
from septran.tuning.many_shapes import PAYS, cases
from septran.tuning.tuning import NothingFoundError

INF = math.inf


def made(shapes, costs):
    return [(case.bounds, case.variant, case.shapes) for case in cases(shapes, costs)]


def of(*extents):
    return [{"M": m, "N": 64} for m in extents]


@pytest.mark.parametrize(
    ("costs", "wanted"),
    [
        ([[2, 1.99], [4, 3.98]], [((), 0, (0, 1))]),  # 0.5 % pays for no line
        ([[2, 1], [4, 3]], [((), 1, (0, 1))]),  # one that is better everywhere is no case
        ([[2, 1], [4, 5]], [(("M <= 8",), 1, (0,)), ((), 0, (1,))]),
        ([[INF, 1], [4, INF]], [(("M <= 8",), 1, (0,)), ((), 0, (1,))]),
        ([[2, 1.98], [4, 5]], [((), 0, (0, 1))]),
    ],
)
def test_a_case_is_made_where_it_pays(costs, wanted):
    assert made(of(1, 64), costs) == wanted


def test_a_shape_never_gets_a_mapping_that_is_refused_where_another_is_right():
    shapes = of(1, 20, 400)
    costs = [[INF, 1], [1, INF], [INF, 1]]
    for case in cases(shapes, costs):
        assert all(math.isfinite(costs[n][case.variant]) for n in case.shapes)
    with pytest.raises(NothingFoundError, match="M=3, N=64"):
        cases(of(3, 3), [[INF, 1], [1, INF]])  # no bound parts them


def test_bounds_are_on_what_all_shapes_have():
    found = cases([{"A_0": 1, "A_1": 4}, {"A_0": 64}], [[2, 1], [1, 2]])
    assert [case.bounds for case in found] == [("A_0 <= 8",), ()]


def test_cases_are_in_order_and_each_shape_is_in_one():
    shapes = of(1, 2, 64, 100, 4096)
    costs = [[9, 1, 9, 9], [9, 1, 9, 9], [9, 9, 1, 9], [9, 9, 1, 9], [9, 9, 9, 1]]
    found = made(shapes, costs)
    assert [variant for _, variant, _ in found] == [1, 2, 3]
    assert [shape for *_, some in found for shape in some] == [0, 1, 2, 3, 4]
    assert found[-1][0] == ()
    for bounds, _, some in found[:-1]:
        for n, shape in enumerate(shapes):
            if all(eval(bound, {}, dict(shape)) for bound in bounds):
                assert n in some or n < min(some)


def test_two_dimensions_part_what_one_cannot():
    shapes = [{"M": m, "K": k} for m in (1, 64) for k in (1, 64)]
    costs = [[2, 1], [2, 3], [2, 3], [2, 3]]
    found = made(shapes, costs)
    assert len(found) == 3 or found[0][0] == ("M <= 8", "K <= 8")
    assert {n: v for _, v, some in found for n in some} == {0: 1, 1: 0, 2: 0, 3: 0}


def test_a_shape_costs_at_most_what_pays_more_than_the_mapping_as_it_is():
    shapes = of(1, 2, 3, 4, 5, 6, 7)
    costs = [[1 + (n * 7 + v * 5) % 11 / 10 for v in range(4)] for n in range(7)]
    for case in cases(shapes, costs):
        for n in case.shapes:
            assert len(case.shapes) > 1 or costs[n][case.variant] <= min(costs[n]) * (1 + PAYS)


def test_the_command_writes_a_dispatch_file_that_is_taken_as_said(monkeypatch, tmp_path):
    monkeypatch.setattr(open_space, "MOST_LOOKED_AT", 25)
    table, best = tmp_path / "models.csv", tmp_path / "gemm.dispatch.yaml"
    table.write_text("M,N,K\n8,64,128\n128,64,128\n")
    said = ["tune", "gemm", "--on", "dsa-sim", "--shapes", str(table), "--model", "-o", str(best)]
    result = CliRunner().invoke(app, said)
    assert result.exit_code == 0, result.output
    assert "2 shapes" in result.output
    assert "M=128, N=64, K=128: case" in result.output
    assert "for these shapes" in best.read_text()
    costs = {}
    for rows in (8, 128):
        for mapping in (str(best), "dsa-sim"):
            asked = CompileRequest.of("gemm", mapping, shapes={"M": rows, "N": 64, "K": 128})
            prediction = septran.tuning.model.predict(fitted(asked).tile_program)
            costs.setdefault(rows, []).append(prediction.cycles)
    assert all(mine <= before for mine, before in costs.values())
    assert any(mine < before for mine, before in costs.values())


def test_named_tunables_and_own_mappings_are_written_in_full(monkeypatch, tmp_path):
    monkeypatch.setattr(open_space, "MOST_LOOKED_AT", 8)
    shapes = [{"M": 8, "N": 64, "K": 128}, {"M": 128, "N": 64, "K": 128}]
    tried = {"block_M": [32, 128]}
    tuned = septran.tune_shapes("gemm", "dsa-sim", shapes=shapes, tried=tried, measured=False)
    for mapping in (tuned.to_yaml(), *tuned.texts):
        assert fitted(CompileRequest.of("gemm", mapping, shapes=shapes[0])).tile_program
    own = tmp_path / "own.mapping.yaml"
    own.write_text("extends: dsa-sim\nrules: [{match: {task: gemm_block}, pipeline: 1}]\n")
    tuned = septran.tune_shapes("gemm", own, shapes=shapes, measured=False)
    path = tuned.save(tmp_path / "gemm.dispatch.yaml")
    assert fitted(CompileRequest.of("gemm", path, shapes=shapes[1])).tile_program
    own.write_text(
        "extends: dsa-sim\ntunables: {block_M: !tune {type: choice, values: [32, 64]}}\n"
    )
    with pytest.raises(WrongArgumentError, match="!tune"):
        septran.tune_shapes("gemm", own, shapes=shapes, measured=False)


def test_what_has_no_shapes_is_said():
    with pytest.raises(WrongArgumentError, match="shapes names no shape"):
        septran.tune_shapes("gemm", "dsa-sim", shapes=[])
    with pytest.raises(SepTranError):
        septran.tune_shapes("gemm", "dsa-sim", shapes=[{"Q": 1}], measured=False)
