"""Kernels between pages that nothing may touch: stray accesses are found, with a name."""

from __future__ import annotations

import pytest

import septran
from septran.ir.index import Index
from septran.machine.loader import NATIVE_IS
from septran.runtime.guard.pages import REACH, Pages
from septran.targets.cpu import simd
from septran.targets.cpu.copy import copies
from septran.targets.cpu.gemm import microkernel
from septran.targets.registry import NoGuardsError


@pytest.fixture
def longer_vectors(monkeypatch):
    monkeypatch.setenv(NATIVE_IS, "split")


@pytest.mark.parametrize(
    ("name", "sizes"), [("gemm", {"M": 7, "N": 35, "K": 9}), ("softmax", {"M": 5, "N": 13})]
)
def test_what_is_right_is_right_there(name, sizes):
    kernel = septran.compile(name, "cpu-x86", shapes=sizes)
    for _ in range(2):
        kernel.check(guard=True).raise_if_wrong()


def test_nothing_is_run_for_empty_tensors():
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 3, "N": 4, "K": 0})
    kernel.check(guard=True).raise_if_wrong()


def test_a_read_behind_a_packed_panel_is_found(monkeypatch, longer_vectors):
    """The whole register tile where only one of its registers has columns."""
    monkeypatch.setattr(microkernel, "_narrowed", lambda _c, shape, _e, _n: [(shape, True)])
    shapes = {"M": 131, "N": 67, "K": 1021}
    # A block that is no multiple of the tile's width: the last panel has no room for all of it.
    kernel = septran.compile("gemm", "cpu-x86", shapes=shapes, tunables={"block_N": 64})
    found = kernel.check(guard=True)
    assert not found.right
    assert "gemm between guard pages: B_L2 was read behind its end" in str(found)


@pytest.mark.slow
def test_a_read_behind_an_operand_is_found(monkeypatch):
    first_lanes = simd.first_lanes
    monkeypatch.setattr(simd, "first_lanes", lambda _count, lanes: first_lanes(lanes, lanes))
    kernel = septran.compile("softmax", "cpu-x86", shapes={"M": 5, "N": 13})
    found = kernel.check(guard=True)
    assert "softmax between guard pages: X was read behind its end, from byte" in str(found)


@pytest.mark.slow
def test_a_write_behind_a_buffer_on_the_stack_is_found(monkeypatch, longer_vectors):
    """A vector eight panels behind each, beyond the room for what is left of a vector."""
    panel = copies._Move._panel

    def with_another(self, at, number, width, count=None):
        panel(self, at, number, width, count)
        self._vector(at, (number + 8) * width, self.lanes(width), Index(), room=True)

    monkeypatch.setattr(copies._Move, "_panel", with_another)
    shapes = {"B": 1, "C": 1, "H": 8, "W": 14, "O": 1, "R": 3, "S": 3}
    tunables = {"block_M": 8, "block_N": 1, "block_K": 3}
    kernel = septran.compile("conv2d", "cpu-x86", shapes=shapes, tunables=tunables)
    found = kernel.check(guard=True)
    assert "A_L2 was written behind its end" in str(found)


@pytest.mark.slow
def test_another_kernel_runs_after_a_fault(monkeypatch):
    with monkeypatch.context() as patch:
        first_lanes = simd.first_lanes
        patch.setattr(simd, "first_lanes", lambda _count, lanes: first_lanes(lanes, lanes))
        kernel = septran.compile("softmax", "cpu-x86", shapes={"M": 2, "N": 3})
        assert not kernel.check(guard=True).right
    kernel = septran.compile("softmax", "cpu-x86", shapes={"M": 2, "N": 3})
    assert kernel.check(guard=True).right


def test_other_machines_have_no_guard_pages():
    kernel = septran.compile("softmax", "dsa-sim", shapes={"M": 16, "N": 16})
    with pytest.raises(NoGuardsError, match="backend 'dsa'"):
        kernel.check(guard=True)


@pytest.mark.parametrize("at_end", [True, False])
def test_a_region_reaches_to_one_of_its_guards(at_end):
    pages = Pages(at_end)
    place, other = pages.place("X", 100, 4), pages.place("Y", 4096, 64)
    assert place.start + 100 == place.pages[1] if at_end else place.start == place.pages[0]
    assert pages.fault_text(place.pages[1], False).startswith("X was read behind its end")
    assert pages.fault_text(other.pages[0] - 1, True) == "Y was written 1 bytes before its start"
    assert pages.fault_text(0, False) == "memory at 0x0 was read"
    assert place.pages[1] + REACH <= other.pages[0] - REACH or place.pages[0] > other.pages[0]
    assert place.touched() is None
    pages.free()
