"""Safe YAML in which every value knows its line and column.

The text is read as a stream of parser events and never *constructed*: there are no
objects of YAML's own, no aliases, and no recursion, so that neither a tag nor a bomb nor
a hundred thousand brackets can do harm. Scalars follow YAML 1.2: ``no`` and ``12:30``
are words. The only tag is ``!tune``.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import linecache
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Union

import yaml

from septran.errors import SepTranError
from septran.location import Location, variable_of_caller

MOST_BYTES = 1 << 20
MOST_NODES = 20_000
"""The greatest number of values in a file.

A long mapping has a few hundred; at this many, reading takes about half a second.
"""
MOST_DEPTH = 32
MOST_FILES = 64
"""The number of files whose text is kept for errors to quote, beside texts that are in no file."""
_files: dict[str, None] = {}
"""The names of those files, the one that was read first at the front."""
_texts: dict[str, str] = {}
"""The digests of texts that are in no file, by the names that errors give them."""
TUNE = "tune"

Scalar = Union[None, bool, int, float, str]


@dataclass(frozen=True)
class Node:
    """A value of a YAML file with its place."""

    value: Scalar | tuple[Node, ...] | Mapping[str, Node]
    where: Location
    tag: str = ""
    """``tune``, or empty."""
    keys: Mapping[str, Location] = field(default_factory=lambda: MappingProxyType({}))
    """The place of each key of a mapping."""

    @property
    def items(self) -> Mapping[str, Node]:
        """The entries of a mapping; none for any other value."""
        return self.value if isinstance(self.value, Mapping) else {}

    @property
    def elements(self) -> tuple[Node, ...]:
        """The elements of a list; any other value is a list of one, nothing an empty one."""
        if isinstance(self.value, tuple):
            return self.value
        return () if self.value is None else (self,)

    @property
    def text(self) -> str:
        """The text of a scalar in YAML."""
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        return str(self.value)

    def get(self, key: str) -> Node | None:
        """Return the value of a key; None where it is missing or empty."""
        found = self.items.get(key)
        return found if found is not None and found.value is not None else None

    def plain(self) -> Any:
        """Return the value as lists, dicts and scalars, without places and tags."""
        if isinstance(self.value, Mapping):
            return {key: value.plain() for key, value in self.value.items()}
        if isinstance(self.value, tuple):
            return [element.plain() for element in self.value]
        return self.value


def is_file(path: Path) -> bool:
    """Return whether a file of that name exists; a name that no file can have is none."""
    try:
        return path.is_file()
    except OSError:  # longer than the system allows
        return False


def read_text(path: Path, kind: type[SepTranError], missing: type[SepTranError]) -> str:
    """Return the text of a UTF-8 file of at most 1 MiB; raises `missing` or `kind`."""
    try:
        if path.exists() and not path.is_file():  # a device or pipe may never end
            raise missing(f"{path} is not a file")
        with path.open("rb") as file:
            # One byte more than is allowed says that the file is too large, however long it is.
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise missing(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise missing(f"cannot read {str(path)!r}: {error}") from None
    if len(data) > MOST_BYTES:
        raise kind(f"{path} is larger than {MOST_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _remember(data.decode("utf-8", "replace"), str(path))
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        place = Location(str(path), line, column)
        raise kind("not UTF-8 text", place, hint="save the file as UTF-8") from None
    _remember(text, str(path))
    return text


def name_text(text: str, what: str) -> str:
    """Return a file name for text that is in no file, under which errors can quote its lines.

    It has the variable's name that a script or a notebook keeps the text in, ``<mapping tiled>``,
    with a number where that held another text before; a digest of the text where none does.
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    variable = variable_of_caller(text) or digest
    numbered = (f"{variable}_{number}" for number in itertools.count(2))
    for called in itertools.chain([variable], numbered):
        name = f"<{what} {called}>"
        if _texts.setdefault(name, digest) == digest:
            break
    _remember(text, name)
    return name


def _remember(text: str, name: str) -> None:
    """Keep lines for errors to quote, as they were when they were read.

    Only the latest `MOST_FILES` files are kept: a process that reads ever more of them would keep
    them all, and the lines of others are read from the disk again.
    """
    lines = [line + "\n" for line in re.split(r"\r\n|\n|\r", text)]
    # Without a time of change linecache takes the entry for good, and does not look at the disk.
    linecache.cache[name] = (len(text), None, lines, name)
    if not name.startswith("<"):
        _files.pop(name, None)
        _files[name] = None
        for oldest in list(_files)[:-MOST_FILES]:
            _files.pop(oldest, None)
            linecache.cache.pop(oldest, None)


def parse(text: str, file: str, kind: type[SepTranError]) -> Node:
    """Return the one document in `text`; raises `kind` with the place."""
    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        where = Location(file, 1)
        raise kind(f"the text is larger than {MOST_BYTES >> 20} MiB", where)
    return _Document(text, file, kind).read()


@dataclass
class _Open:
    """A list or mapping that is being read."""

    start: int
    """The position of its first character."""
    where: Location
    tag: str
    entries: dict[str, Node] | None
    """The entries of a mapping; None for a list."""
    elements: list[Node] = field(default_factory=list)
    keys: dict[str, Location] = field(default_factory=dict)
    key: str | None = None


class _Document:
    def __init__(self, text: str, file: str, kind: type[SepTranError]) -> None:
        self.text, self.file, self.kind = text, file, kind
        self.starts = [0]
        for match in re.finditer(r"\r\n|\n|\r", text):
            self.starts.append(match.end())
        self.open: list[_Open] = []
        self.root: Node | None = None

    def read(self) -> Node:
        count = documents = 0
        for event in self._events():
            match event:
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise self._error("a second document begins here", event, "one a file")
                case yaml.AliasEvent():
                    raise self._error("aliases are not allowed", event, "write the value again")
                case yaml.NodeEvent():
                    count += 1
                    if count > MOST_NODES:
                        raise self._error(f"more than {MOST_NODES} values", event)
                    self._begin(event)
                case yaml.CollectionEndEvent():
                    self._end(event)
        if self.root is None:
            raise self.kind("the file is empty", Location(self.file, 1))
        return self.root

    def _events(self) -> Iterator[Any]:
        try:
            yield from yaml.parse(self.text, Loader=yaml.SafeLoader)
        except yaml.reader.ReaderError as error:
            where = self._at(error.position)
            raise self.kind(f"unprintable character {error.character!r}", where) from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = self._at(mark.index) if mark else Location(self.file, 1)
            raise self.kind(_sentence(error), where, hint=_hint(error)) from None
        except (yaml.YAMLError, ValueError, IndexError, OverflowError) as error:
            # PyYAML lets a few of Python's own escape, such as for "\UFFFFFFFF".
            raise self.kind(f"not YAML: {error}", Location(self.file, 1)) from None

    def _begin(self, event: Any) -> None:
        where = self._at(event.start_mark.index, event.end_mark.index)
        if event.anchor is not None:
            raise self._error("anchors are not allowed", event, "write the value where it is used")
        tag = event.tag
        if tag not in (None, f"!{TUNE}"):
            raise self._error(f"unknown tag {tag!r}", event, "the only tag is !tune")
        tag = "" if tag is None else TUNE
        if isinstance(event, yaml.ScalarEvent):
            self._add(self._scalar(event, where, tag))
            return
        if len(self.open) >= MOST_DEPTH:
            raise self._error(f"nested more than {MOST_DEPTH} deep", event)
        if self.open and self.open[-1].entries is not None and self.open[-1].key is None:
            raise self._error("a key must be a word", event, "not a list or a mapping")
        table = isinstance(event, yaml.MappingStartEvent)
        self.open.append(_Open(event.start_mark.index, where, tag, {} if table else None))

    def _end(self, event: Any) -> None:
        done = self.open.pop()
        if event.end_mark.index > event.start_mark.index:  # a bracket closes it
            done.where = self._at(done.start, event.end_mark.index)
        if done.entries is None:
            self._add(Node(tuple(done.elements), done.where, done.tag))
        else:
            entries, keys = MappingProxyType(done.entries), MappingProxyType(done.keys)
            self._add(Node(entries, done.where, done.tag, keys))

    def _add(self, node: Node) -> None:
        if not self.open:
            self.root = node
            return
        inside = self.open[-1]
        if inside.entries is None:
            inside.elements.append(node)
        elif inside.key is None:
            self._key(inside, node)
        else:
            inside.entries[inside.key] = node
            inside.key = None

    def _key(self, inside: _Open, node: Node) -> None:
        if node.value is None or node.tag:
            raise self.kind("a key must be a word", node.where)
        key = node.text
        if key in inside.keys:
            first = inside.keys[key]
            raise self.kind(
                f"key {key!r} is given twice", node.where, notes=[("first here", first)]
            )
        inside.keys[key] = node.where
        inside.key = key

    def _scalar(self, event: Any, where: Location, tag: str) -> Node:
        value: Scalar = event.value
        if event.style is None and isinstance(value, str):
            try:
                value = _resolve(value)
            except ValueError as error:
                raise self.kind(str(error), where) from None
        return Node(value, where, tag)

    def _error(self, message: str, event: Any, hint: str | None = None) -> SepTranError:
        where = self._at(event.start_mark.index, event.end_mark.index)
        return self.kind(message, where, hint=hint)

    def _at(self, start: int, end: int | None = None) -> Location:
        line = bisect.bisect_right(self.starts, start)
        column = start - self.starts[line - 1] + 1
        length = 1
        if end is not None and bisect.bisect_right(self.starts, end) == line:
            length = max(1, end - start)
        return Location(self.file, line, column, length)


_NULL = ("", "~", "null", "Null", "NULL")
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE = re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def _resolve(text: str) -> Scalar:
    """An unquoted scalar by YAML 1.2's core schema; ValueError for numbers beyond 64 bits."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    # Most scalars are words, on which no pattern needs to be tried.
    if not text[:1].isascii() or not (text[0].isdigit() or text[0] in "+-."):
        return text
    if _INTEGER.fullmatch(text) or _OTHER_BASE.fullmatch(text):
        # int() takes time by the square of a text's length, so a long one counts as too large
        # unread.
        number = int(text, 0 if text[:2] in ("0x", "0o") else 10) if len(text) <= 40 else 1 << 64
        if abs(number) >= 1 << 63:
            raise ValueError("a number beyond 64 bits")
        return number
    if _FLOAT.fullmatch(text):
        value = float(text)
        if not math.isfinite(value):
            raise ValueError("a number beyond 64 bits")
        return value
    return text


def _sentence(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or error.context or "not YAML"
    return f"{problem} {error.context}" if error.context and error.problem else problem


def _hint(error: yaml.MarkedYAMLError) -> str | None:
    problem = error.problem or ""
    if "'\\t'" in problem:
        return "indent with spaces, not tabs"
    if "mapping values are not allowed" in problem:
        return "quote a value that contains ': ', and check the indentation"
    if "expected ',' or" in problem:
        return "a bracket is not closed, or a comma is missing"
    if "could not find expected ':'" in problem:
        return "a key is followed by ': '"
    if "found character" in problem or "alphabetic" in problem:
        return 'quote a value that begins with a special character, such as "*"'
    return None
