"""How many waves of a kernel a compute unit holds: by hand, for each thing that is scarce."""

import pytest

from septran.emulator.launch import KernelLaunch
from septran.machine.loader import load_machine
from septran.targets.rocm.compile import HipFigures
from septran.targets.rocm.occupancy import waves_at_a_time


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "waves"),
    [
        (256, 64, 0, 32),  # 512 / 64: eight on each of four units
        (256, 65, 0, 28),  # rounded up to 72: seven
        (256, 188, 32768, 8),  # 192 registers: two; two blocks by the local data share, too
        (256, 128, 33000, 4),  # only one block's 33,280 bytes fit
        (256, 512, 0, 4),
        (512, 128, 0, 16),
        (1024, 200, 0, 0),  # 16 waves, and there is room for 8
    ],
)
def test_waves_of_a_compute_unit(threads, registers, shared, waves):
    launch = KernelLaunch("k", 1, threads, 1, shared, ())
    figures = HipFigures("k", registers, 0, 20, 0, 0, 0)
    assert waves_at_a_time(launch, figures, load_machine("amd-mi300x")) == waves
    assert waves_at_a_time(launch, figures, load_machine("amd-mi250")) == waves


def test_without_limits_nothing_is_said():
    launch, figures = KernelLaunch("k", 1, 256, 1, 0, ()), HipFigures("k", 64, 0, 20, 0, 0, 0)
    assert waves_at_a_time(launch, figures, load_machine("nvidia-h200")) is None
