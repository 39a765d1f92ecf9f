"""Programs that call a library's kernels, and the numbers that they read and compare with."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from septran.targets.cpu.library.model import CLibrary, LibraryKernel
from septran.targets.cpu.library.text import template
from septran.targets.cpu.run.c_function import Parameter
from septran.targets.templates import check_header, filled


def examples(library: CLibrary) -> dict[str, bytes]:
    """The files of the folder ``examples`` by their paths in it."""
    words = {"name": library.name, "prefix": library.prefix, "upper": library.upper}
    texts = {
        "example.c": filled(
            template("example.c"), **words,
            calls="\n".join(_in_c(library, k) for k in library.kernels),
            uses="\n".join(f"  wrong |= check_{k.name}();" for k in library.kernels),
        ),
        "example.cpp": filled(
            template("example.cpp"), **words,
            calls="\n".join(_in_cpp(library, k) for k in library.kernels),
            uses="\n".join(f"    wrong += check_{k.name}();" for k in library.kernels),
        ),
        "check.h": check_header(),
    }  # fmt: skip
    files = {name: text.encode() for name, text in texts.items()}
    for kernel in library.kernels:
        if kernel.part.reference is not None:
            data = kernel.part.reference.files((t.name, role) for t, role in kernel.tensors)
            files |= {f"data/{kernel.name}.{name}": content for name, content in data.items()}
    return files


def _counts(kernel: LibraryKernel) -> dict[str, int]:
    """The elements of each tensor in the example's call."""
    reference = kernel.part.reference
    found = {}
    for tensor, role in kernel.tensors:
        shape = tensor.shape or ()
        if reference is not None:
            given: Mapping[str, np.ndarray] = (
                reference.inputs if role == "input" else reference.exact
            )
            shape = np.shape(given[tensor.name])
        found[tensor.name] = math.prod(shape)
    return found


def _passed(kernel: LibraryKernel) -> dict[str, str]:
    """What the example passes for each number that the function takes."""
    reference = kernel.part.reference
    found = {}
    for number in kernel.numbers:
        value: float | int = number.example
        if reference is not None:
            value = reference.scalars.get(number.name, value)
        found[number.name] = repr(int(value) if isinstance(value, bool | np.bool_) else value)
    if reference is None:
        return found
    for tensor, role in kernel.tensors:
        given = reference.inputs if role == "input" else reference.exact
        for word, extent in zip(tensor.extents, np.shape(given[tensor.name]), strict=False):
            if word in kernel.spans:
                found[word] = str(extent)
    return found


def _in_c(library: CLibrary, kernel: LibraryKernel) -> str:
    counts, lines = _counts(kernel), []
    for tensor, role in kernel.tensors:
        lines.append(f"  {tensor.c_type} *{_made_in_c(kernel, tensor, role, counts)}")
    lines += _filled_in(kernel, counts)
    lines.append(_call(library, kernel, [t.c_name for t, _ in kernel.tensors]))
    lines.append("  int wrong = status != 0;")
    lines.append(f'  if (status) printf("{kernel.name}: %s\\n", {library.prefix}_message(status));')
    for tensor, role in kernel.tensors:
        if role != "input" and kernel.part.reference is not None:
            lines += _compared(kernel, tensor, counts[tensor.name])
    lines += [f"  free({t.c_name});" for t, _ in kernel.tensors]
    if kernel.part.reference is None:
        lines.append(f'  printf("{kernel.name}: called; there is nothing to compare with\\n");')
    body = "\n".join(lines)
    return f"static int check_{kernel.name}(void) {{\n{body}\n  return wrong;\n}}\n"


def _made_in_c(
    kernel: LibraryKernel, tensor: Parameter, role: str, counts: Mapping[str, int]
) -> str:
    count, size = counts[tensor.name], f"sizeof(*{tensor.c_name})"
    if role == "output" or kernel.part.reference is None:
        return f"{tensor.c_name} = new_tensor({count}, {size});"
    file = f"data/{kernel.name}.{tensor.name}"
    return f'{tensor.c_name} = read_tensor("{file}", {count}, {size});'


def _filled_in(kernel: LibraryKernel, counts: Mapping[str, int]) -> list[str]:
    """Zeros, where there are no numbers to read."""
    if kernel.part.reference is not None:
        return []
    return [
        f"  memset({t.c_name}, 0, {counts[t.name]} * sizeof(*{t.c_name}));"
        for t, role in kernel.tensors
        if role != "output"
    ]


def _call(library: CLibrary, kernel: LibraryKernel, pointers: list[str]) -> str:
    passed = _passed(kernel)
    words = ", ".join([*pointers, *(passed[n.name] for n in kernel.numbers)])
    return f"  int32_t status = {library.function(kernel)}({words});"


def _compared(kernel: LibraryKernel, tensor: Parameter, count: int) -> list[str]:
    name = f"data/{kernel.name}.{tensor.name}"
    return [
        "  {",
        f'    double *exact = read_tensor("{name}.exact", {count}, sizeof(double));',
        f'    double *bound = read_tensor("{name}.bound", {count}, sizeof(double));',
        f'    wrong |= compare("{kernel.name} {tensor.name}", "{tensor.dtype}", {tensor.c_name}, '
        f"{count}, exact, bound);",
        "    free(exact), free(bound);",
        "  }",
    ]


def _in_cpp(library: CLibrary, kernel: LibraryKernel) -> str:
    counts, lines = _counts(kernel), []
    reference = kernel.part.reference
    for tensor, role in kernel.tensors:
        count, kind = counts[tensor.name], f"std::vector<{tensor.c_type}>"
        if role == "output" or reference is None:
            lines.append(f"  {kind} {tensor.c_name}({count});")
        else:
            file = f"data/{kernel.name}.{tensor.name}"
            lines.append(f'  {kind} {tensor.c_name} = read<{tensor.c_type}>("{file}", {count});')
    lines.append(_call(library, kernel, [f"{t.c_name}.data()" for t, _ in kernel.tensors]))
    lines.append("  int wrong = status != 0;")
    for tensor, role in kernel.tensors:
        if role != "input" and reference is not None:
            name, count = f"data/{kernel.name}.{tensor.name}", counts[tensor.name]
            lines += [
                f'  wrong |= compare("{kernel.name} {tensor.name}", "{tensor.dtype}",',
                f"                   {tensor.c_name}.data(), {count},",
                f'                   read<double>("{name}.exact", {count}).data(),',
                f'                   read<double>("{name}.bound", {count}).data());',
            ]
    body = "\n".join(lines)
    return f"int check_{kernel.name}() {{\n{body}\n  return wrong;\n}}\n"
