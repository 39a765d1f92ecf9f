"""CUDA text as C++ that a host compiler takes: shared memory, assembly, entries.

All else stays as it is, line by line, so that a line of the C++ is a line of the CUDA text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from septran.emulator.errors import CudaPlace, UnknownInstructionError
from septran.emulator.inline_asm import statements
from septran.emulator.ptx.statements import translate
from septran.emulator.sites import origin_of

_DYNAMIC = re.compile(
    r"extern\s+__shared__\s+(?:(?:__align__|alignas)\((\d+)\)\s+)?([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;"
)
_STATIC = re.compile(
    r"(?<!extern )__shared__\s+(?:(?:__align__|alignas)\((\d+)\)\s+)?([\w ]+?)\s+(\w+)"
    r"\s*((?:\[[^\]]*\]\s*)*);"
)
_GLOBAL = re.compile(
    r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\s*\('
)

_KERNEL = re.compile(r"^.*__global__\s+void[^;]*?\{.*?^\}", re.MULTILINE | re.DOTALL)
_LOCAL = re.compile(r"^(\s+(?:alignas\(\d+\)\s+)?[A-Za-z_]\w*\s+(\w+)\[\d+\];)", re.MULTILINE)


@dataclass(frozen=True)
class Translation:
    """C++ for the host compiler."""

    text: str
    kernels: tuple[str, ...]
    lines_before: int
    """Lines that were put before the first of the CUDA text."""


def blocks_beside(source: str, kernel: str) -> int:
    """Blocks of a kernel beside each other, by its launch bounds; 1 where these are open."""
    bounds = re.search(rf"__launch_bounds__\(\s*\w+\s*,\s*(\d+)[^)]*\)\s+{kernel}\s*\(", source)
    return max(1, int(bounds[1])) if bounds else 1


def to_cpp(source: str, arch: str = "sm_90a") -> Translation:
    """`source` as C++; raises UnknownInstructionError with the line."""
    number = re.sub(r"\D", "", arch) or "90"
    # First, as the offsets of assembly are those of the source.
    text = _assembly(source)
    text = _DYNAMIC.sub(_dynamic, text)
    ids = iter(range(1 << 20))
    # Behind the assembly, whose C++ has the addresses that are looked for.
    text = _arrays(text)
    text = _STATIC.sub(lambda m: _static(m, next(ids)), text)
    kernels = tuple(dict.fromkeys(_GLOBAL.findall(source)))
    head = f"#define __CUDA_ARCH__ {number}0\n"
    entries = "".join(
        f'\nextern "C" void emu_entry_{k}(void** a) {{ emu::invoke(&{k}, a); }}' for k in kernels
    )
    return Translation(f"{head}{text}{entries}\n", kernels, head.count("\n"))


def _arrays(text: str) -> str:
    """A kernel's own arrays hold NaN at first, as registers hold anything on a GPU.

    Those whose addresses it takes tell the runtime their bounds.
    """

    def declared(found: re.Match[str]) -> str:
        name = found[2]
        poisoned = f"{found[0]} __builtin_memset({name}, 0xff, sizeof {name});"
        if not re.search(rf"&\(?{name}\b", text):
            return poisoned
        return f"{poisoned} emu::LocalArray emu_{name}({name}, sizeof({name}));"

    return _KERNEL.sub(lambda kernel: _LOCAL.sub(declared, kernel[0]), text)


def _assembly(source: str) -> str:
    parts, at = [], 0
    for number, statement in enumerate(statements(source)):
        try:
            code = translate(statement, number)
        except UnknownInstructionError as error:
            raise _located(error, source, statement.start) from None
        # The C++ is in one line: as many line ends as before keep the numbers of those below.
        lines = source.count("\n", statement.start, statement.end)
        parts += [source[at : statement.start], code, "\n" * lines]
        at = statement.end
    return "".join([*parts, source[at:]])


def _located(error: UnknownInstructionError, source: str, at: int) -> UnknownInstructionError:
    line = source.count("\n", 0, at) + 1
    lines = source.splitlines()
    place = CudaPlace(line, lines[line - 1].strip()[:160], origin_of(lines, line))
    found = UnknownInstructionError(
        f"{error.message}\n  at {place}",
        hint="an instruction becomes known in septran/emulator/ptx/",
    )
    found.place = place
    return found


def _dynamic(found: re.Match[str]) -> str:
    align, type_, name = found.groups()
    return f"{type_}* const {name} = ({type_}*)emu::dynamic_shared({align or f'alignof({type_})'});"


def _static(found: re.Match[str], number: int) -> str:
    align, type_, name, extents = found.groups()
    shape = f"emu_shared_{number}"
    call = f"emu::static_shared({number}, sizeof({shape}), {align or f'alignof({type_})'})"
    return f"typedef {type_} {shape}{extents.strip()}; {shape}& {name} = *({shape}*){call};"
