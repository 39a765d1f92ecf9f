"""A library of kernels as C sees it: names, versions for processors, what these need."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from septran.errors import TargetError
from septran.targets.base import LibraryPart
from septran.targets.cpu.library.elf import renamed
from septran.targets.cpu.run.build import built
from septran.targets.cpu.run.c_function import CFunction, Parameter, c_function
from septran.targets.cpu.run.isa import features, llvm_arch, processor, unit_of

ABI = 1
"""What callers rely on: statuses, structs, and the functions that every library has."""
TEMPLATES = Path(__file__).with_name("templates")
KNOWN = frozenset(
    re.findall(r'^  \{"([\w.-]+)"', (TEMPLATES / "processor.c").read_text(encoding="utf-8"), re.M)
)
"""Features that ``processor.c`` asks for; others are of no instruction that LLVM chooses itself."""
RUNTIME_NAMES = (
    "__TVMBackendParallelLaunch", "__TVMBackendAllocWorkspace", "__TVMBackendFreeWorkspace",
    "TVMFFIErrorSetRaisedFromCStrParts", "septran_ask_for_tiles", "septran_lacking",
    "septran_set_threads", "septran_threads",
)  # fmt: skip
"""Of the runtime; each library has its own, so that two of them meet in one program."""
RESERVED = frozenset(
    ("abi", "build", "kernels", "lacking", "message", "processor", "set_threads", "supported",
     "tensor", "kernel", "threads", "version", "internal")
)  # fmt: skip
"""What a library calls its own functions and types, behind its prefix."""


class LibraryNameError(TargetError):
    """A library, or a kernel in it, is to have a name that C cannot use, or that another has."""

    code = "SEP517"


class MixedLibraryError(TargetError):
    """The kernels of a library are for processors of several kinds, or take different tensors."""

    code = "SEP518"


@dataclass(frozen=True)
class KernelVersion:
    """A kernel's code for one processor."""

    function: CFunction
    name: str
    """The processor in words of C: ``x86_64_v4``."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The features of the processor that the code may use, by LLVM's names."""
        arch = self.function.arch
        found = KNOWN & features(arch)
        if b"septran_ask_for_tiles" not in self.function.code:
            found = frozenset(f for f in found if not f.startswith("amx-"))
        length = {f"sve-bytes-{unit_of(arch).bytes}"} if "sve" in found else set()
        return tuple(sorted(found | length, key=_by_kind))

    @property
    def rank(self) -> tuple[int, int]:
        """The length of its vectors, then how much it needs: the greatest is preferred."""
        return unit_of(self.function.arch).bytes, len(self.needs)


def _by_kind(feature: str) -> tuple[bool, str]:
    """Those of the widest vectors first, as they say best what is missing."""
    return not feature.startswith(("avx512", "sve", "amx")), feature


@dataclass(frozen=True)
class LibraryKernel:
    """A kernel of a library, in one or several versions, the best first."""

    part: LibraryPart
    versions: tuple[KernelVersion, ...]

    @property
    def name(self) -> str:
        """The last part of its function's name."""
        return self.part.name

    @property
    def tensors(self) -> tuple[tuple[Parameter, str], ...]:
        """The pointers that its function takes, and what each is for."""
        return tuple(zip(self.versions[0].function.tensors, self.part.roles, strict=True))

    @property
    def numbers(self) -> tuple[Parameter, ...]:
        """The scalars that its function takes behind the pointers, then the extents."""
        return self.versions[0].function.parameters[len(self.tensors) :]

    @property
    def spans(self) -> dict[str, tuple[int, int]]:
        """The least and the greatest of each extent that a call tells."""
        sizes = self.part.versions[0][1].sizes()
        return {size.name: (size.least, size.most) for size in sizes}


@dataclass(frozen=True)
class CLibrary:
    """What a folder of an exported library is written from."""

    name: str
    """The library's name: ``lib<name>.so``, ``<name>.h``."""
    prefix: str
    """What all names begin with that a program sees."""
    kernels: tuple[LibraryKernel, ...]

    @property
    def upper(self) -> str:
        """The prefix of macros and constants."""
        return self.prefix.upper()

    @property
    def internal(self) -> str:
        """The prefix of what only the library itself names."""
        return f"{self.prefix}_internal"

    @property
    def architecture(self) -> str:
        """The first part of its system's triple; empty where that is this host's."""
        return self.kernels[0].versions[0].function.architecture

    def function(self, kernel: LibraryKernel) -> str:
        """The C function of a kernel."""
        own = self.prefix == f"septran_{kernel.name}"
        return self.prefix if own else f"{self.prefix}_{kernel.name}"

    def code(self, kernel: LibraryKernel, version: KernelVersion) -> str:
        """The C name of a version's code, which is that of its object file, too."""
        return f"{self.internal}_{kernel.name}_{version.name}"

    def prototype(self, kernel: LibraryKernel, name: str) -> str:
        """The declaration of a function that takes what a kernel takes."""
        words = [
            f"{'const ' * (role == 'input')}{t.c_type} *{t.c_name}" for t, role in kernel.tensors
        ]
        words += [f"{n.c_type} {n.c_name}" for n in kernel.numbers]
        return f"int32_t {name}({', '.join(words)})"

    @cached_property
    def objects(self) -> dict[str, bytes]:
        """The object files by name; no two define a symbol of one name, and none offers any."""
        return {
            f"{kernel.name}.{version.name}.o": self._object(kernel, version)
            for kernel in self.kernels
            for version in kernel.versions
        }

    def _object(self, kernel: LibraryKernel, version: KernelVersion) -> bytes:
        own = self.code(kernel, version)

        def name(old: str, defined: bool) -> str:
            if old == version.function.symbol:
                return own
            if old in RUNTIME_NAMES:
                return f"{self.internal}_{old.strip('_')}"
            # LLVM's own functions for half precision are weak, and compiled for this processor:
            # a linker would let code for another one, or a caller's, use them.
            return f"{own}_{old}" if defined else old

        return renamed(version.function.code, name)

    def runtime(self, file: Path) -> str:
        """A source of the runtime, with this library's names."""
        text = file.read_text(encoding="utf-8")
        for old in RUNTIME_NAMES:
            text = re.sub(rf"\b{old}\b", f"{self.internal}_{old.strip('_')}", text)
        return text

    @cached_property
    def build(self) -> str:
        """A number of what the code does, by which a library and its papers know each other."""
        digest = hashlib.sha256(f"{ABI} {self.prefix}".encode())
        for kernel in self.kernels:
            digest.update(self.prototype(kernel, kernel.name).encode())
        for name, code in self.objects.items():
            digest.update(f"{name} {len(code)} ".encode() + code)
        return digest.hexdigest()[:32]


def library(parts: Sequence[LibraryPart], name: str | None) -> CLibrary:
    """Compile kernels for a library; raises LibraryNameError, MixedLibraryError, TargetError."""
    names = [part.name for part in parts]
    if name is None:
        if len(parts) != 1:
            raise LibraryNameError(
                f"a library of {len(parts)} kernels has no name of its own",
                hint="write septran.export([...], folder, name='mylib')",
            )
        prefix, name = f"septran_{names[0]}", names[0]
    else:
        prefix = name
    for word in (name, *names):
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", word):
            hint = (
                "a name has ASCII letters, digits and underscores, and begins with a letter; "
                "septran.export({'name': kernel}, folder) gives a kernel another"
            )
            raise LibraryNameError(f"{word!r} is no name in C", hint=hint)
    for word in names:
        if names.count(word) > 1 or word in RESERVED:
            why = "two kernels have" if names.count(word) > 1 else "the library itself uses"
            raise LibraryNameError(
                f"{why} the name {word!r}",
                hint="name them: septran.export({'gemm_small': small, 'gemm_large': large}, ...)",
            )
    made = CLibrary(name, prefix, tuple(map(_kernel, parts)))
    _require_one_kind(made)
    return made


def _kernel(part: LibraryPart) -> LibraryKernel:
    versions: dict[str, KernelVersion] = {}
    for ir, program in part.versions:
        arch = llvm_arch(program.machine)
        word = re.sub(r"\W", "_", processor(arch))
        if word not in versions:
            function = built(ir, partial(c_function, ir, program, arch))
            versions[word] = KernelVersion(function, word)
    best = sorted(versions.values(), key=lambda version: version.rank, reverse=True)
    return LibraryKernel(part, tuple(best))


def _require_one_kind(made: CLibrary) -> None:
    for kernel in made.kernels:
        for version in kernel.versions:
            if version.function.architecture != made.architecture:
                raise MixedLibraryError(
                    f"{kernel.name} is for {version.name}, another kind of processor than the "
                    "rest of the library",
                    hint="export a library for each kind",
                )
            if version.function.parameters != kernel.versions[0].function.parameters:
                raise MixedLibraryError(
                    f"{kernel.name} takes other tensors for {version.name}",
                    hint="export versions of the same shapes and dtypes",
                )
