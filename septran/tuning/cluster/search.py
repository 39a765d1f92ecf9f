"""The two parts of a candidate's way on a cluster: it is built, and it is run and timed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from septran.machine.model import Machine
from septran.runtime.signature import Signature
from septran.runtime.stages import Stages
from septran.tuning.cluster.engines import JobEngine, engine_of
from septran.tuning.cluster.hosts import that_measures
from septran.tuning.cluster.work import Builders, ClusterWorker, is_time


class BuildLostError(Exception):
    """A candidate whose building broke down somewhere else."""


class SearchCluster:
    """A cluster as a search uses it."""

    def __init__(self, engine: JobEngine, machine: Machine) -> None:
        self.engine, self.width = engine, engine.width
        self.worker = ClusterWorker(
            engine, "septran.tuning.worker", needs=that_measures(machine), timed=True,
            sensible=is_time,
        )  # fmt: skip
        self._builders = Builders(engine, machine)

    @staticmethod
    def of(workers: Any, machine: Machine) -> SearchCluster:
        """Use what the caller names; raises WrongArgumentError, NoClusterError."""
        return SearchCluster(engine_of(workers), machine)

    def stopped_by(self, stopped: Callable[[], bool]) -> None:
        """Give up what is asked once `stopped` says so."""
        self.worker.stopped = self._builders.worker.stopped = stopped

    def save(self, signature: Signature, stages: Stages, path: Path) -> None:
        """Write a kernel's file; raises BuildLostError, Stopped."""
        file = path.with_name(f"{path.name}.zip")
        reason = self._builders.save(signature, stages, file)
        if reason:
            raise BuildLostError(reason)
        file.rename(path)

    def close(self) -> None:
        """Give up what is still asked, and leave the cluster."""
        self._builders.close()
        self.worker.close()
        self.engine.close()
