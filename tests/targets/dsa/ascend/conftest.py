"""Kernels in Ascend C with a mistake in their text."""

from __future__ import annotations

import pytest

from septran.targets.dsa.code.toolchain import cpp_compiler

if cpp_compiler() is None:
    pytest.skip("no C++ compiler", allow_module_level=True)


class Edited:
    """A kernel whose text was changed: it runs, or says what is wrong."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.executable = kernel.stages.executable
        self.lines = self.executable.source.text.split("\n")

    def change(self, old, new, *, count=1):
        """Replace a part of the text, which must be there; `count` None: wherever it is."""
        text = "\n".join(self.lines)
        assert old in text, f"{old!r} is not in the text"
        self.lines = text.replace(old, new, -1 if count is None else count).split("\n")
        return self

    def run(self, **inputs):
        """The output of the changed text, by the simulator."""
        changed = self.executable.with_text("\n".join(self.lines))
        arguments = [inputs[name] for name in self.kernel.stages.tile_program.params]
        changed.simulate(*arguments)
        return arguments[0]


@pytest.fixture
def edited():
    return Edited
