"""What scripts begin with that tests run in processes of their own."""

from __future__ import annotations

WITHOUT_TORCH = """\
from septran.torch_when_needed import import_torch_when_needed
import_torch_when_needed()
"""
"""TVM's bindings import torch wherever it is installed: two seconds of each process.

Not for tests of what a user's program does with torch.
"""
