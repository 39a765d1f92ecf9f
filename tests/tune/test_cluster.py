"""Candidates on other processes: what becomes of one costs only itself."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context

import pytest

import septran
from septran.argument_checks import WrongArgumentError
from septran.compiler import fitted
from septran.fuzz import CampaignSettings, run_campaign
from septran.matrix import measure_matrix
from septran.request import CompileRequest
from septran.runtime.archive import load
from septran.tuning.cluster.dask import NoClusterError
from septran.tuning.cluster.engines import ExecutorEngine, engine_of
from septran.tuning.cluster.hosts import Host, that_builds, that_measures, this_host
from septran.tuning.cluster.jobs import ClusterJob, answer
from septran.tuning.cluster.parts import KernelParts
from septran.tuning.cluster.work import ClusterWorker, is_time, side_by_side

MODULE = "septran.tuning.worker"
GOOD = {"kind": "measured", "seconds": 1.0}
SPAWNED = get_context("spawn")
"""JAX, which other tests have loaded here, warns of every fork."""


class Planned:
    """An engine whose jobs have planned outcomes."""

    width = 1

    def __init__(self, *outcomes):
        self.outcomes, self.jobs = list(outcomes), []

    def submit(self, job):
        self.jobs.append(job)
        outcome, future = self.outcomes.pop(0), Future()
        if outcome is None:
            return None
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        elif outcome != "hangs":
            future.set_result(outcome)
        return future

    def lost(self, error):
        return isinstance(error, CancelledError)

    def close(self):
        pass


def asked(*outcomes, grace=5.0):
    engine = Planned(*outcomes)
    worker = ClusterWorker(engine, MODULE, sensible=is_time, grace=grace)
    return worker.ask({"kind": "a request"}, 0.0), engine


@pytest.mark.parametrize(
    ("outcome", "kind", "says"),
    [
        (GOOD, "measured", ""),
        ({"kind": "timed out", "message": "not done"}, "timed out", "not done"),
        (RuntimeError("gone"), "crashed", "its worker was lost: RuntimeError: gone"),
        ("hangs", "timed out", "no answer"),
        (7, "crashed", "nonsense"),
        ({"kind": "measured", "seconds": float("nan")}, "crashed", "nonsense"),
        ({"kind": "measured", "seconds": -1.0}, "crashed", "nonsense"),
        ({"kind": "measured", "seconds": 1.0, "files": {"Y": 3}}, "crashed", "nonsense"),
        ({"kind": "praised"}, "crashed", "nonsense"),
    ],
)
def test_what_becomes_of_a_worker_is_one_outcome(outcome, kind, says):
    found, _ = asked(outcome, grace=0.3)
    assert found["kind"] == kind
    assert says in found.get("message", "")


def test_an_answer_that_comes_as_the_wait_ends_counts():
    class Late(Future):
        def result(self, timeout=None):
            if not self.done():
                self.set_result(GOOD)
                raise TimeoutError
            return super().result(timeout)

    engine = Planned(GOOD)
    engine.submit = lambda job: Late()
    assert ClusterWorker(engine, MODULE, sensible=is_time).ask({}, 1.0) == GOOD


def test_a_job_is_begun_again_when_the_scheduler_is_back():
    found, engine = asked(CancelledError(), CancelledError(), GOOD)
    assert (found, len(engine.jobs)) == (GOOD, 3)
    found, _ = asked(*[CancelledError()] * 3)
    assert found == {"kind": "crashed", "message": "the cluster was lost 3 times"}


def test_a_host_of_another_kind_runs_nothing():
    here = this_host()
    assert here.suits(here)
    assert here.suits(Host(code=here.code))
    other = replace(here, vectors="other")
    assert not here.suits(other)
    assert answer(ClusterJob(MODULE, {}, 1.0, other))["kind"] == "elsewhere"


def test_times_need_this_host_and_cycles_need_none():
    cpu, dsa = septran.load_machine("cpu-x86"), septran.load_machine("dsa-sim")
    assert that_measures(cpu) == this_host()
    assert that_measures(dsa) == replace(this_host(), vectors="", processor="")
    # Code for this host's own vectors is made where the vectors are the same, other code anywhere.
    assert that_builds(cpu).vectors
    assert not that_builds(replace(cpu, arch="avx2")).vectors
    assert not that_builds(dsa).vectors


def test_the_parts_of_a_kernel_make_it_again(tmp_path):
    request = CompileRequest.of("softmax", "dsa-sim", shapes={"M": 8, "N": 16})
    parts = KernelParts.of(request.signature, fitted(request))
    again = KernelParts.from_bytes(parts.to_bytes())
    assert str(again.tile_program) == str(parts.tile_program)
    again.save(tmp_path / "k.zip")
    shapes = {"M": 8, "N": 16}
    here = septran.compile("softmax", "dsa-sim", shapes=shapes).profile()
    assert load(tmp_path / "k.zip").profile().cycles == here.cycles


def test_the_next_is_chosen_by_what_was_done():
    seen, done = [], []

    def given():
        for number in range(6):
            seen.append(len(done))
            yield number

    side_by_side(2, given(), lambda n: n * n, lambda n, found: not done.append((n, found)))
    assert sorted(done) == [(n, n * n) for n in range(6)]
    assert seen[:2] == [0, 0]
    assert all(b >= a for a, b in itertools.pairwise(seen))


def test_what_is_no_executor_is_refused():
    with pytest.raises(WrongArgumentError, match="neither a number of processes nor an executor"):
        engine_of("tcp://there")


TUNED = {"shapes": {"M": 16, "N": 32}, "tried": {"block_rows": [2, 4]}, "runs": 2}


@pytest.mark.slow
def test_an_executor_finds_what_one_process_does():
    alone = septran.tune("softmax", "dsa-sim", **TUNED)
    with ProcessPoolExecutor(2, SPAWNED) as pool:
        found = septran.tune("softmax", "dsa-sim", workers=pool, **TUNED)
    assert [(t.point, t.cycles) for t in found.ordered] == [
        (t.point, t.cycles) for t in alone.ordered
    ]


@pytest.mark.slow
def test_a_worker_that_is_killed_breaks_its_executor_and_costs_one():
    engine = ExecutorEngine(ProcessPoolExecutor(1, SPAWNED), 1, ends=True)
    pid = engine.executor.submit(os.getpid).result()
    worker = ClusterWorker(engine, "tests.tune.planted_sleeper", grace=30.0)
    pending = engine.submit(ClusterJob("time", {}, 60.0))
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(BrokenProcessPool) as found:
        pending.result(30.0)
    assert not engine.lost(found.value)
    assert engine.submit(ClusterJob("time", {}, 1.0)) is None
    worker.close()
    engine.close()


@pytest.fixture
def cluster(tmp_path):
    """A function that starts workers of a scheduler of Dask's, each with an environment."""
    pytest.importorskip("distributed")
    started = []

    def start(*command, **environment):
        env = {**os.environ, **environment, "SEPTRAN_CACHE_DIR": str(tmp_path / "cache")}
        env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        made = subprocess.Popen(
            [sys.executable, "-m", *command], env=env, cwd=tmp_path,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        started.append(made)
        return made

    yield start
    for one in reversed(started):
        one.kill()
        one.wait()


def scheduler(start, tmp_path, port="0"):
    told = tmp_path / "scheduler.json"
    told.unlink(missing_ok=True)
    made = start(
        "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port,
        "--no-dashboard", "--scheduler-file", str(told),
    )  # fmt: skip
    end = time.monotonic() + 60
    while not told.exists() and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(0.2)

    return made, json.loads(told.read_text())["address"]


def worker(start, address, **environment):
    return start(
        "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny",
        "--memory-limit", "0", **environment,
    )  # fmt: skip


def when_there(engine, number):
    end = time.monotonic() + 90
    while len(engine._hosts) < number:
        assert time.monotonic() < end
        engine._unknown()
        time.sleep(0.2)


@pytest.mark.slow
def test_a_cluster_with_a_killed_a_hanging_and_a_foreign_worker(cluster, tmp_path):
    _, address = scheduler(cluster, tmp_path)
    good, killed = worker(cluster, address), worker(cluster, address)
    foreign = "avx2" if "avx2" not in this_host().vectors else "split"
    worker(cluster, address, SEPTRAN_NATIVE=foreign)
    engine = engine_of("dask://" + address.removeprefix("tcp://"))
    try:
        when_there(engine, 3)
        assert len({host.vectors for host in engine._hosts.values()}) == 2
        # What is timed comes to hosts like this one, and never to the other.
        module = "tests.tune.planted_sleeper"
        mine = ClusterWorker(engine, module, needs=this_host(), grace=8.0)
        told = [mine.ask({"sleep": 0.0}, 60.0)["kind"] for _ in range(3)]
        assert told == ["measured"] * 3
        where = []
        side_by_side(
            2, range(3), lambda n: mine.run(ClusterJob(module, {"sleep": 2.0}, 60.0, this_host())),
            lambda n, found: not where.append(found["process"]),
        )  # fmt: skip
        assert set(where) == {good.pid, killed.pid}
        # One is killed under its job, which alone is lost; the next goes to the other one.
        kinds = []

        def run(number):
            if number == 1:
                time.sleep(1.5)
                killed.send_signal(signal.SIGKILL)
                while len(engine.addresses()) > 2:  # what is sent to it until then is lost, too
                    time.sleep(0.1)
            return mine.ask({"sleep": 4.0}, 60.0)["kind"]

        side_by_side(3, range(3), run, lambda n, kind: not kinds.append(kind))
        assert sorted(kinds) == ["crashed", "measured", "measured"]
        # One hangs, and gets no other job: what only it could run is run here.
        good.send_signal(signal.SIGSTOP)
        assert mine.ask({"sleep": 0.0}, 0.5)["kind"] == "timed out"
        assert mine.ask({"sleep": 0.0}, 60.0)["process"] not in (good.pid, killed.pid)
        mine.close()
    finally:
        good.send_signal(signal.SIGCONT)
        engine.close()


@pytest.mark.slow
def test_a_search_a_matrix_and_random_programs_on_a_cluster_that_restarts(cluster, tmp_path):
    first, address = scheduler(cluster, tmp_path)
    worker(cluster, address)
    on = "dask://" + address.removeprefix("tcp://")
    found = septran.tune("softmax", "dsa-sim", workers=on, **TUNED)
    assert [trial.kind for trial in found.ordered] == ["measured"] * 2
    engine = engine_of(on)
    asked = ClusterWorker(engine, "tests.tune.planted_sleeper", grace=60.0)
    assert asked.ask({"sleep": 0.0}, 60.0)["kind"] == "measured"
    first.kill()
    first.wait()
    _, again = scheduler(cluster, tmp_path, address.rpartition(":")[2])
    assert again == address
    worker(cluster, address)
    found = asked.ask({"sleep": 0.0}, 60.0)
    assert found["kind"] == "measured", found
    asked.close()
    engine.close()
    cells = measure_matrix(["softmax"], ["dsa-sim"], first=True, workers=on)
    assert cells.right
    assert len(cells.cells) == 1
    campaign = run_campaign(1, 1, settings=CampaignSettings(workers=on))
    assert [o.kind for o in campaign.outcomes] in (["right"], ["rejected"])


def test_no_scheduler_is_told_with_what_starts_one(monkeypatch):
    monkeypatch.setattr("septran.tuning.cluster.dask.CONNECT_SECONDS", 0.3)
    with pytest.raises(NoClusterError):  # also where nothing that speaks to one is installed
        engine_of("dask://127.0.0.1:9")
