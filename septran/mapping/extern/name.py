"""The names of instructions in mappings: a machine's, or a function of a file beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from septran.machine.kinds import Named, Report, Schema
from septran.machine.positions import Node

EXTERN = "extern"
"""The primitive of a leaf that a function of the user's computes, and its word in mappings."""
_PART = r"[\w.+-](?:[\w.+ -]*[\w.+-])?"
FORM = re.compile(rf"extern\s+({_PART}(?:/{_PART})*):([A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)")
"""Such a name: its file, in which there may be spaces, and its function."""


@dataclass(frozen=True)
class InstructionName(Named):
    """The name of an instruction, or of a function: ``extern kernels.cpp:tile``."""

    def check(self, node: Node, report: Report) -> None:
        """Report unknown instructions, and names of functions that have another form."""
        if not node.text.startswith(f"{EXTERN} "):
            super().check(node, report)
        elif FORM.fullmatch(node.text) is None:
            report.wrong(
                f"{node.text!r} is no function of a file beside this one: "
                '"extern FILE:FUNCTION", such as "extern kernels.cpp:tile"',
                node.where,
            )

    def schema(self) -> Schema:
        """Return the JSON Schema: a name, or a function."""
        return {"anyOf": [super().schema(), {"type": "string", "pattern": f"^{FORM.pattern}$"}]}
