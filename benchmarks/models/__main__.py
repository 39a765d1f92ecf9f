"""``python -m benchmarks.models encoder``: whole models beside torch and others."""

from __future__ import annotations

import argparse
from dataclasses import replace

from benchmarks.models import decoder, decoder_speed, encoder
from septran.targets.cpu.run.threads import usable_cores

parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
parser.add_argument("model", choices=["encoder", "decoder"])
parser.add_argument("--threads", type=int, nargs="+", default=[1, usable_cores()])
parser.add_argument("--seconds", type=float, default=2.0, help="for each line of the encoder")
parser.add_argument(
    "--alone", action="store_true", help="one way after another, its weights in the caches"
)
parser.add_argument("--layers", type=int, default=16, help="of the decoder")
parser.add_argument("--words", type=int, default=128_256, help="of the decoder")
parser.add_argument("--tokens", type=int, default=16, help="that the decoder generates")
parser.add_argument(
    "--weights", nargs="+", choices=["bfloat16", "int4"], default=["bfloat16", "int4"],
    help="of the decoder",
)  # fmt: skip
given = parser.parse_args()
if given.model == "encoder":
    encoder.run(given.threads, given.seconds, given.alone)
else:
    shape = replace(decoder.Shape(), layers=given.layers, words=given.words)
    decoder_speed.run(shape, given.threads, given.tokens, given.weights)
