"""Control programs that somebody has edited: their C, compiled again, and its origins."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

from septran.errors import TargetError
from septran.targets.dsa.ascend.build import compile_ascend
from septran.targets.dsa.code.codegen import Code
from septran.targets.dsa.code.native import CProgram, compile_code
from septran.targets.dsa.code.toolchain import CompileError
from septran.targets.dsa.code.vendor import ASCENDC, Vendor

_KERNEL = re.compile(
    r'^(?:extern "C" __global__ __aicore__ )?void \w+\([^{]*\)(?=\s*\{)', re.MULTILINE
)
"""The kernel of a generated text, which has one such function that is not static."""


class NotCompiledError(TargetError):
    """Generated C was edited where no C compiler made the kernel."""

    code = "SEP547"


def compiled(vendor: Vendor, symbol: str, text: str, program: object, generated: str) -> CProgram:
    """The machine code of `text`, in the place of `program`; raises CompileError.

    It has to have the function of the `generated` text, as calls pass what that takes. Raises
    NotCompiledError where `program` was not made of C.
    """
    if not isinstance(program, CProgram):
        raise NotCompiledError(
            f"LLVM made the commands of {symbol}, not a C compiler, so its C cannot be edited",
            vendor.machine.location,
            hint="install cc, gcc or clang, and let the header be compiled: `septran trust`",
        )
    # Declared behind the text, so that the compiler refuses another kind of object, or a function
    # with other parameters; that there is none at all is left to the library's symbols.
    declared = _declaration(generated)
    whole = f"{text}\n{declared};\n"
    try:
        if vendor.language == ASCENDC:
            return compile_ascend(vendor, whole, program.buffers, program.scalars)
        code = Code(symbol, whole, {}, ())
        found = compile_code(vendor, code, program.buffers, program.scalars)
        _check_function(found, declared)
    except CompileError as error:
        error.hint = "edit the text of kernel.stages.source, which compiles, a little at a time"
        raise
    return found


def _check_function(program: CProgram, declared: str) -> None:
    """Raise CompileError where the library lacks the function."""
    try:
        program.library[program.function]
    except AttributeError:
        raise CompileError(f"the edited text has no function {declared!r}") from None


def _declaration(generated: str) -> str:
    """``void gemm(int32_t core, float *C)``: how the kernel of a generated text begins."""
    found = _KERNEL.search(generated)
    assert found is not None, "the generated text has no kernel"
    return " ".join(found[0].split())


def kept_origins(before: str, origins: Mapping[int, str], after: str) -> dict[int, str]:
    """Why the lines of `after` are there: as before, or because somebody edited them."""
    return dict(_kept(before.splitlines(), origins, after.splitlines()))


def _kept(
    before: list[str], origins: Mapping[int, str], after: list[str]
) -> Iterator[tuple[int, str]]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, first, _, start, end in matcher.get_opcodes():
        for number in range(start, end):
            if kind != "equal":
                yield number + 1, f"line {number + 1}, which was edited"
            elif origin := origins.get(first + number - start + 1):
                yield number + 1, origin
