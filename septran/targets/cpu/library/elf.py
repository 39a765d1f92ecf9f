"""Names of an object file's symbols, changed so that several objects meet in one program.

An ELF file for a machine of 64 bits and little bytes first, as LLVM writes it: the symbols are
entries of ``.symtab``, their names lie in the table of strings that it is linked with. New names
are appended to that table. Source: Tool Interface Standard, ELF specification, version 1.2, and
its extension to 64 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

_SECTION = struct.Struct("<IIQQQQIIQQ")
"""Name, type, flags, address, offset, size, link, info, alignment, size of an entry."""
_SYMBOL = struct.Struct("<IBBHQQ")
"""Name, info, other, section, value, size."""
_MAGIC = b"\x7fELF\x02\x01"
_SYMTAB, _LOCAL, _UNDEFINED, _HIDDEN = 2, 0, 0, 2


def renamed(code: bytes, name: Callable[[str, bool], str]) -> bytes:
    """Return the object file with other names of its global symbols.

    `name` gives the new one of each, by the old one and whether the file itself defines it. What
    is given another name is hidden: a shared library that is made of the object does not offer it
    to others. Raises ValueError for anything but an ELF file of 64 bits, little bytes first.
    """
    if code[: len(_MAGIC)] != _MAGIC:
        raise ValueError("no ELF file of 64 bits with the little byte first")
    content = bytearray(code)
    start, count = *struct.unpack_from("<Q", code, 40), *struct.unpack_from("<H", code, 60)
    headers = [start + n * _SECTION.size for n in range(count)]
    for header in headers:
        _, kind, _, _, offset, size, link, *_ = _SECTION.unpack_from(code, header)
        if kind == _SYMTAB:
            _rename(content, range(offset, offset + size, _SYMBOL.size), headers[link], name)
    return bytes(content)


def _rename(
    content: bytearray, symbols: range, header: int, name: Callable[[str, bool], str]
) -> None:
    """Change the symbols at these places; `header` is that of the table of their names."""
    fields = list(_SECTION.unpack_from(content, header))
    strings = bytearray(content[fields[4] : fields[4] + fields[5]])
    for place in symbols:
        at, info, other, section, value, size = _SYMBOL.unpack_from(content, place)
        old = strings[at : strings.index(0, at)].decode()
        new = old if info >> 4 == _LOCAL or not old else name(old, section != _UNDEFINED)
        if new == old:
            continue
        entry = (len(strings), info, other | _HIDDEN, section, value, size)
        _SYMBOL.pack_into(content, place, *entry)
        strings += new.encode() + b"\0"
    # Behind everything else: what lies after the old table must stay where it is.
    fields[4], fields[5] = len(content), len(strings)
    content += strings
    _SECTION.pack_into(content, header, *fields)


def global_symbols(code: bytes) -> dict[str, bool]:
    """Return the names of the global symbols, and whether the file defines each."""
    found: dict[str, bool] = {}

    def note(name: str, defined: bool) -> str:
        found[name] = defined
        return name

    renamed(code, note)
    return found
