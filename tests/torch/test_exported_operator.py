"""The pages of C++ in docs/export.md: a kernel in a package that runs without SepTran or Python."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import septran

torch = pytest.importorskip("torch")

PAGE = Path(__file__).parents[2] / "docs/export.md"
USE = """
import sys
import torch

torch.ops.load_library("./libop.so")


class Model(torch.nn.Module):
    def forward(self, x, w):
        return torch.ops.mylib.rms_norm(x.relu(), w) + 1


x, w, model = torch.randn(7, 64), torch.randn(64), Model()
PROGRAM
packaged = torch._inductor.aoti_load_package("model.pt2")
for count in (2, 7, 300):
    x = torch.randn(count, 64)
    assert torch.equal(packaged(x, w), Model()(x, w))
    exact = torch.nn.functional.rms_norm(x.relu().double(), (64,), w.double(), 1e-6) + 1
    # A sum of 64 products, a root, a quotient, two more products and a sum, of numbers below 64.
    assert (packaged(x, w) - exact).abs().max() < 2**-24 * (64 + 8) * exact.abs().max()
for wrong in (torch.randn(4097, 64), torch.randn(3, 65)):
    try:
        torch.ops.mylib.rms_norm(wrong, w)
    except RuntimeError as error:
        print(str(error).splitlines()[0])
assert "septran" not in sys.modules
"""


def blocks(language):
    text = PAGE.read_text(encoding="utf-8")
    part = text[text.index("## As an operator of torch") : text.index("## As an operator of ONNX")]
    return re.findall(rf"^```{language}\n(.*?)^```", part, re.S | re.M)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
def test_a_package_of_aotinductor_calls_a_library(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compiling, packaging = blocks("python")
    exec(compiling, {"septran": septran})
    for name, text in zip(("op.cpp", "main.cpp"), blocks("cpp"), strict=True):
        (tmp_path / name).write_text(text)
    python = f"PATH={Path(sys.executable).parent}:$PATH\n"
    operator, whole = blocks("sh")
    subprocess.run(["sh", "-ec", python + operator], check=True)
    program = packaging.split("\n", 1)[1]  # behind the library's own line
    (tmp_path / "use.py").write_text(USE.replace("PROGRAM", program))
    done = subprocess.run(
        [sys.executable, "use.py"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    beyond, other = done.stdout.splitlines()
    assert "an extent is beyond those that the kernel was made for" in beyond
    assert "[M, 64], [64]" in other
    # The program without Python: in the shell that has built the operator, where torch is known.
    torchs = operator.splitlines()[0]
    done = subprocess.run(
        ["sh", "-ec", f"{python}{torchs}\n{whole}"], capture_output=True, text=True, check=True
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["2", "7", "300"]
