"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# NumPy's threads wait for each other on a busy machine: small products took seconds.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


class Golden:
    """Compares text with ``tests/golden/<test file>/<name>.txt``."""

    def __init__(self, folder: Path, update: bool) -> None:
        self.folder, self.update = folder, update

    def check(self, text: str, name: str) -> None:
        path = self.folder / f"{name}.txt"
        text = text.rstrip("\n") + "\n"
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden file {path}; write it with --update-golden"
        assert text == path.read_text(encoding="utf-8")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    folder = request.path.relative_to(TESTS).with_suffix("")
    return Golden(TESTS / "golden" / folder, request.config.getoption("--update-golden"))
