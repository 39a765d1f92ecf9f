"""Every test of CPU code runs for both widths of vectors: see `vectors` in tests/conftest.py."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def _for_both_widths(vectors):
    del vectors
