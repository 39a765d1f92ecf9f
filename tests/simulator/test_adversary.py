"""Delays change when things happen, not what comes out; and who is before whom, exactly."""

import numpy as np
import pytest

from benchmarks.dsa_simulator import gemm_stream
from septran.machine.loader import load_machine
from septran.simulator import HazardError, SimulatedDeadlockError, simulate
from septran.simulator.commands import memory_address
from septran.simulator.timing.random_delays import VARIABLE

SPM, ACC = memory_address(1), memory_address(2)
IN, OUT, MMA, VEC = range(4)


@pytest.fixture(scope="module")
def gemm():
    machine = load_machine("dsa-sim")
    random = np.random.default_rng(3)
    a, b = (random.standard_normal((128, 128)).astype(np.float16) for _ in range(2))
    return machine, gemm_stream(machine, 128, (64, 32, 32), "float16"), a, b


@pytest.mark.parametrize("seed", range(16))
def test_a_gemm_gives_the_same_bits_under_all_delays(gemm, seed):
    machine, stream, a, b = gemm
    c, late = np.zeros((2, 128, 128), np.float32)
    plain = simulate(machine, stream, [a, b, c])
    delayed = simulate(machine, stream, [a, b, late], adversary=seed)
    assert (c == late).all()
    assert delayed.cycles > plain.cycles
    exact = a.astype(np.float64) @ b.astype(np.float64)
    size = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    assert (np.abs(c - exact) <= 130 * 2.0**-24 * size).all()


def test_the_environment_names_a_seed(gemm, monkeypatch):
    machine, stream, a, b = gemm
    c = np.zeros((128, 128), np.float32)
    named = simulate(machine, stream, [a, b, c], adversary=11)
    monkeypatch.setenv(VARIABLE, "11")
    assert simulate(machine, stream, [a, b, c]).trace.tobytes() == named.trace.tobytes()


@pytest.mark.parametrize("seed", range(16))
def test_each_wait_of_a_gemm_is_missed(gemm, seed):
    """Without any one pair of a flag's set and wait, the stream is refused.

    But for the last of each flag: what is drained at the end orders nothing.
    """
    machine, stream, a, b = gemm
    pairs = []
    flags = np.flatnonzero(np.isin(stream["code"], _codes("set_flag", "wait_flag")))
    for key in np.unique(stream["arguments"][flags, :3], axis=0):
        alike = flags[(stream["arguments"][flags, :3] == key).all(axis=1)]
        sets, waits = (
            alike[stream["code"][alike] == code] for code in _codes("set_flag", "wait_flag")
        )
        pairs += list(zip(sets, waits, strict=True))[:-1]
    dropped = pairs[int(np.random.default_rng(seed).integers(len(pairs)))]
    parameters = [a, b, np.zeros((128, 128), np.float32)]
    with pytest.raises((HazardError, SimulatedDeadlockError)):
        simulate(machine, np.delete(stream, dropped), parameters, adversary=seed)


def _codes(*names):
    from septran.simulator.commands import CODES

    return [CODES[f"dsa.{name}"] for name in names]


# -------------------------------------------------------------------- against an oracle


def _random_stream(script, random):
    """Fills and copies of a few places on four queues, with flags and syncs between."""
    commands = []
    for _ in range(int(random.integers(4, 16))):
        what = random.integers(0, 10)
        place = int(random.integers(0, 4)) * 32
        if what < 2:
            script.fill(ACC + place, 1.0, 1, 16)
            commands.append((VEC, (), ((ACC + place, 64),)))
        elif what < 3:
            script.store(0, ACC + place, 1, 64, offset=place)
            commands.append((OUT, ((ACC + place, 64),), ((place, 64),)))
        elif what < 4:
            script.load(place, 0, 1, 64, offset=place)
            commands.append((IN, ((place, 64),), ((SPM + place, 64),)))
        elif what < 9:
            src, dst = random.choice([IN, OUT, VEC], 2, replace=False).tolist()
            script.flag(src, dst)
            commands += [("set", src, dst), ("wait", src, dst)]
        else:
            script.add("sync")
            commands.append("sync")
    return commands


def _unordered_conflict(commands):
    """Whether two commands conflict and no path leads from one to the other."""
    size = len(commands)
    edge = np.zeros((size, size), bool)
    queue = [_queue(c) for c in commands]
    for a in range(size):
        for b in range(a + 1, size):
            same = queue[a] is not None and queue[a] == queue[b]
            edge[a, b] = same or "sync" in (commands[a], commands[b])
    flags = {}
    for n, command in enumerate(commands):
        if command[0] in ("set", "wait"):
            flags.setdefault(command[1:], {"set": [], "wait": []})[command[0]].append(n)
    for found in flags.values():
        for n, (a, b) in enumerate(zip(found["set"], found["wait"], strict=True)):
            edge[a, b] = True
            if n + 1 < len(found["set"]):
                edge[b, found["set"][n + 1]] = True
    for middle in range(size):
        edge |= edge[:, middle : middle + 1] & edge[middle]
    for a in range(size):
        for b in range(a + 1, size):
            if _conflict(commands[a], commands[b]) and not edge[a, b]:
                return True
    return False


def _queue(command):
    if command == "sync":
        return None
    if command[0] == "set":
        return command[1]
    return command[2] if command[0] == "wait" else command[0]


def _conflict(a, b):
    if len(a) != 3 or len(b) != 3 or isinstance(a[0], str) or isinstance(b[0], str):
        return False
    pairs = [(a[2], b[2]), (a[1], b[2]), (a[2], b[1])]
    return any(x < y + m and y < x + n for one, other in pairs for x, n in one for y, m in other)


@pytest.mark.parametrize("seed", range(300))
def test_hazards_are_those_that_no_path_orders(toy, script, seed):
    random = np.random.default_rng(seed)
    for place in range(3):  # so that every read has been written
        script.fill(ACC + place * 64, 1.0, 1, 16)
    script.add("sync")
    commands = _random_stream(script, random)
    parameters = [np.zeros(1024, np.uint8)]
    adversary = None if seed % 2 else seed
    if _unordered_conflict(commands):
        with pytest.raises(HazardError):
            simulate(toy, script.stream(), parameters, adversary=adversary)
    else:
        simulate(toy, script.stream(), parameters, adversary=adversary)


def test_the_oracle_sees_both(toy, new_script):
    """The streams of the test above are a good mixture."""
    verdicts = []
    for seed in range(300):
        script, random = new_script(), np.random.default_rng(seed)
        verdicts.append(_unordered_conflict(_random_stream(script, random)))
    assert 60 < sum(verdicts) < 240
