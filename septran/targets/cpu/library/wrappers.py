"""The C source of a library: it chooses code for the processor, checks a call, and makes it."""

from __future__ import annotations

from septran.dtypes import itemsize
from septran.targets.cpu.library.header import extents
from septran.targets.cpu.library.model import CLibrary, LibraryKernel
from septran.targets.cpu.library.text import template
from septran.targets.templates import filled

_ROLES = {"input": "INPUT", "output": "OUTPUT", "summed": "SUMMED"}


def wrappers(library: CLibrary, version: str) -> str:
    """The text of ``<name>.c``; `version` is SepTran's."""
    kernels = library.kernels
    return filled(
        template("library.c"), name=library.name, prefix=library.prefix, upper=library.upper,
        internal=library.internal, version=version,
        kernels="\n".join(_kernel(library, kernel) for kernel in kernels),
        table="\n".join(_row(kernel) for kernel in kernels),
        choices="\n".join(
            f"    case {n}: return chosen(&{k.name}_version, {k.name}_needs);"
            for n, k in enumerate(kernels)
        ),
        least=", ".join(f"{k.name}_needs_{k.versions[-1].name}" for k in kernels),
        names=", ".join(f"{k.name}_processors" for k in kernels),
    )  # fmt: skip


def _kernel(library: CLibrary, kernel: LibraryKernel) -> str:
    """The versions of a kernel, what they need, and its function."""
    name, versions = kernel.name, kernel.versions
    needs = [
        f"static const char *const {name}_needs_{v.name}[] = {_list([*map(_text, v.needs)])};"
        for v in versions
    ]
    codes = [f"{library.prototype(kernel, library.code(kernel, v))};" for v in versions]
    listed = _list([f"{name}_needs_{v.name}" for v in versions])
    return "\n".join(
        [
            f"/* {'-' * 66} {name} */\n",
            *codes,
            *needs,
            f"static const char *const *const {name}_needs[] = {listed};",
            f"static const char *const {name}_processors[] = "
            f"{_list([_text(v.name) for v in versions])};",
            f"static int {name}_version;",
            *_tensors(library, kernel),
            "",
            _function(library, kernel),
        ]
    )


def _function(library: CLibrary, kernel: LibraryKernel) -> str:
    names = [t.c_name for t, _ in kernel.tensors]
    passed = ", ".join([*names, *(n.c_name for n in kernel.numbers)])
    absent = " || ".join(f"!{n}" for n in names)
    away = [f"away({t.c_name}, {itemsize(t.dtype)})" for t, _ in kernel.tensors]
    far = [f"{n} < {least} || {n} > {most}" for n, (least, most) in kernel.spans.items()]
    checks = [("NO_POINTER", absent), ("NOT_ALIGNED", " || ".join(away))]
    checks += [("BAD_EXTENT", " || ".join(far))] if far else []
    calls = [
        f"    case {n}: failed = {library.code(kernel, v)}({passed}); break;"
        for n, v in enumerate(kernel.versions)
    ]
    return "\n".join(
        [
            f"{library.prototype(kernel, library.function(kernel))} {{",
            "  int32_t failed = 0;",
            f"  int version = chosen(&{kernel.name}_version, {kernel.name}_needs);",
            f"  if (version < 0) return {library.upper}_NO_PROCESSOR;",
            *(f"  if ({when}) return {library.upper}_{status};" for status, when in checks),
            "  switch (version) {",
            *calls,
            "  }",
            f"  return failed ? {library.upper}_NO_MEMORY : {library.upper}_DONE;",
            "}\n",
        ]
    )


def _tensors(library: CLibrary, kernel: LibraryKernel) -> list[str]:
    lines, rows = [], []
    for n, (tensor, role) in enumerate(kernel.tensors):
        shape = tensor.shape or ()
        numbers = ", ".join(map(str, shape)) or "0"
        lines.append(f"static const int64_t {kernel.name}_shape_{n}[] = {{{numbers}}};")
        rows.append(
            f"  {{{_text(tensor.name)}, {_text(tensor.dtype)}, {_text(extents(tensor))}, "
            f"{kernel.name}_shape_{n}, {len(shape)}, {library.upper}_{_ROLES[role]}, "
            f"sizeof({tensor.c_type})}},"
        )
    return [
        *lines,
        f"static const {library.prefix}_tensor {kernel.name}_tensors[] = {{",
        *rows,
        "};",
    ]


def _row(kernel: LibraryKernel) -> str:
    part = kernel.part
    processors = " ".join(version.name for version in kernel.versions)
    words = [kernel.name, part.summary, processors]
    words += [part.hashes.get("logic", ""), part.hashes.get("mapping", "")]
    return f"  {{{', '.join(map(_text, words))}, {len(kernel.tensors)}, {kernel.name}_tensors}},"


def _list(words: list[str]) -> str:
    return f"{{{', '.join([*words, 'NULL'])}}}"


def _text(value: str) -> str:
    plain = " ".join(value.split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'
