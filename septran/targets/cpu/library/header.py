"""The C header of a library: statuses, structs, and a documented function for each kernel."""

from __future__ import annotations

from septran.dtypes import itemsize
from septran.targets.base import LibraryPart
from septran.targets.cpu.library.model import ABI, CLibrary, LibraryKernel
from septran.targets.cpu.library.text import template
from septran.targets.templates import filled

ROLES = {
    "input": "is read; it must not overlap what is written",
    "output": "is written, all of it",
    "summed": "is read and added to",
}
MEANINGS = {"float16": "IEEE half precision", "bfloat16": "bfloat16"}
"""Of elements that are bits of integers in C."""


def header(library: CLibrary, version: str) -> str:
    """The header's text; `version` is SepTran's."""
    kernels = "\n".join(_function(library, kernel) for kernel in library.kernels)
    return filled(
        template("library.h"), name=library.name, prefix=library.prefix, upper=library.upper,
        version=version, abi=ABI, build=library.build, functions=kernels,
        list=", ".join(kernel.name for kernel in library.kernels),
    )  # fmt: skip


def _function(library: CLibrary, kernel: LibraryKernel) -> str:
    lines = [f"{_plain(kernel.part.summary)}", "", "Tensors:"]
    for tensor, role in kernel.tensors:
        meaning = MEANINGS.get(tensor.dtype) or (
            "eight bits of a float" if tensor.dtype.startswith("float8") else ""
        )
        words = f"{tensor.dtype}{f' ({meaning}, as bits)' if meaning else ''}"
        lines.append(f"  {tensor.c_name} {extents(tensor)} {words}: {ROLES[role]};")
        lines.append(f"    {_bytes(tensor)}, at a multiple of {itemsize(tensor.dtype)} bytes.")
    spans = kernel.spans
    defaults = {s.name: s.default for s in kernel.part.versions[0][1].scalars}
    if kernel.numbers:
        lines.append("Numbers:")
    for number in kernel.numbers:
        least, most = spans.get(number.name, (None, None))
        default = defaults.get(number.name)
        what = "a scalar" + ("" if default is None else f", in the logic {default} if not said")
        if least is not None:
            what = f"an extent, from {least} to {most}"
        lines.append(f"  {number.c_name}: {what}.")
    codes = ", ".join(version.name for version in kernel.versions)
    lines += [
        "Results: " + ", ".join(t.c_name for t, role in kernel.tensors if role != "input") + ".",
        f"Code for: {codes}.",
        *hashes(kernel.part),
        f"Returns {library.upper}_DONE, or another status.",
    ]
    comment = "\n".join(f" * {line}".rstrip() for line in lines)
    name = library.function(kernel)
    return f"/**\n{comment}\n */\n{library.upper}_API {library.prototype(kernel, name)};\n"


def hashes(part: LibraryPart) -> list[str]:
    """Lines on what a kernel was made from."""
    return [f"SHA-256 of its {what}: {value}" for what, value in sorted(part.hashes.items())]


def extents(tensor: object) -> str:
    """The shape in words: ``[M, 64]``."""
    words = getattr(tensor, "extents", ()) or map(str, getattr(tensor, "shape", ()) or ())
    return f"[{', '.join(words)}]"


def _bytes(tensor: object) -> str:
    factors = [*(getattr(tensor, "extents", ()) or map(str, getattr(tensor, "shape", ()) or ()))]
    size = str(itemsize(getattr(tensor, "dtype", "")))
    if all(map(str.isdigit, factors)):
        count = int(size)
        for factor in factors:
            count *= int(factor)
        return f"{count} bytes"
    return f"{' * '.join(f'({f})' if ' ' in f else f for f in (*factors, size))} bytes"


def _plain(text: str) -> str:
    """A line that ends no comment."""
    return " ".join(text.replace("*/", "* /").split())
