"""Identifiers for generated programs: names that users may choose, odd ones among them."""

from __future__ import annotations

from septran.fuzz.choices import Choices

_ODD = (
    "warp", "smem", "half", "T", "x_1", "Tile", "lanes", "threadIdx", "blockIdx", "main_",
    "register", "volatile", "double_", "float4", "uint8_t", "dma", "A_L2", "C_0", "buffer", "ring",
    "stage", "mbarrier", "tid", "k_0", "extern_", "printf", "malloc", "exp", "gemm", "copy", "fill",
    "self", "cls", "type_", "result", "zero", "naive", "Q", "K", "V", "S", "P", "O", "lambda_",
)  # fmt: skip
"""Words that mean something in CUDA, C, TVM, SepTran's own printing or other operators."""


class Names:
    """Gives each role of a program one identifier, no two the same."""

    def __init__(self, choices: Choices) -> None:
        """Plain names (the roles themselves) are the simplest."""
        self._choices = choices
        self._odd = choices.chance(50)
        self._of: dict[str, str] = {}

    def __getitem__(self, role: str) -> str:
        """Return the name of `role`, chosen when it is first requested."""
        if role not in self._of:
            self._of[role] = self._new(role)
        return self._of[role]

    def of(self, *roles: str) -> dict[str, str]:
        """Return the names by role, new ones chosen in the order of `roles`."""
        return {role: self[role] for role in roles}

    def _new(self, role: str) -> str:
        taken = set(self._of.values())
        if self._odd and self._choices.chance(70):
            free = [name for name in _ODD if name not in taken]
            return self._choices.of(free)
        return role if role not in taken else f"{role}_"
