"""A mapping's text with a value in the place of every `!tune`, and its comments kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from septran.mapping.mapping import MappingFile
from septran.mapping.tune import Candidate, Point


def settled(text: str, mapping: MappingFile, point: Point) -> str:
    """Return the text with chosen values, or the first candidates, in the place of each `!tune`."""
    document = yaml.compose(text, yaml.SafeLoader)
    edits: list[tuple[int, int, str]] = []
    for dimension in mapping.dimensions:
        node = _at(document, dimension.path)
        if node is not None and node.tag == "!tune":
            value = point.get(dimension.name, next(dimension.tune.candidates()))
            edits.append((node.start_mark.index, _end(node), value_text(value)))
    for start, end, value in sorted(edits, reverse=True):
        text = text[:start] + value + text[end:]
    return text


def value_text(value: Candidate) -> str:
    """Return a value as YAML writes it in a line."""
    written = yaml.safe_dump(
        list(value) if isinstance(value, tuple) else value, default_flow_style=True
    )
    return str(written).removesuffix("...\n").strip()


def _at(node: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if isinstance(node, yaml.MappingNode):
            pairs: Mapping[str, Any] = {key.value: value for key, value in node.value}
            node = pairs.get(part)
        elif isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
            node = node.value[int(part)]
        else:
            return None
    return node


def _end(node: Any) -> int:
    """Return where a node ends, without the white space and comments after a block."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    index: int = node.end_mark.index
    return index
