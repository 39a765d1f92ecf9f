"""``python -m benchmarks.models encoder``: whole models beside torch and onnxruntime."""

from __future__ import annotations

import argparse

from benchmarks.models import encoder
from septran.targets.cpu.run.threads import usable_cores

parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
parser.add_argument("model", choices=["encoder"])
parser.add_argument("--threads", type=int, nargs="+", default=[1, usable_cores()])
parser.add_argument("--seconds", type=float, default=2.0, help="for each line")
parser.add_argument(
    "--alone", action="store_true", help="one way after another, its weights in the caches"
)
given = parser.parse_args()
encoder.run(given.threads, given.seconds, given.alone)
