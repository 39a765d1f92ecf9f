"""How messages speak of what stands in a file."""

from __future__ import annotations

from collections.abc import Mapping

from septran.machine.positions import Node


def found(node: Node) -> str:
    """What was found instead of what is expected."""
    if isinstance(node.value, Mapping):
        return "a table"
    if isinstance(node.value, tuple):
        return "a list"
    if node.value is None:
        return "nothing"
    kind = {bool: "the flag", int: "the number", float: "the number", str: "the word"}
    return f"{kind[type(node.value)]} {quoted(node.text)}"


def advice(node: Node) -> str | None:
    """What to write instead of a word that YAML versions disagree on."""
    if node.value in ("yes", "no", "on", "off", "Yes", "No", "On", "Off"):
        return "write true or false"
    return None


def quoted(text: str) -> str:
    """A piece of a file, cut where it is long."""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
