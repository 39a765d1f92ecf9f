"""A kernel for TPUs: its text, and a call of it by JAX, on a TPU or interpreted."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import io
import json
import linecache
import math
import types
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from septran.dtypes import numpy_dtype
from septran.errors import TargetError
from septran.targets.base import Source
from septran.targets.tensor_memory import as_bytes
from septran.targets.tpu.element_types import held
from septran.targets.tpu.module import arguments_of, function_name
from septran.tile.nodes import TileProgram

INTERPRETER = "JAX's TPU interpreter"
INSTALL = 'pip install "septran[tpu]"'
TEXT, FACTS = "kernel.py", "kernel.json"


class NoJaxError(TargetError):
    """JAX, which compiles and interprets kernels for TPUs, is not installed."""

    code = "SEP533"


class TpuRunError(TargetError):
    """JAX's TPU interpreter found a race, or an access that a TPU does not allow."""

    code = "SEP534"


class MosaicError(TargetError):
    """JAX cannot lower a kernel for a TPU to Mosaic, the language of the TPU's own compiler."""

    code = "SEP535"


class TpuArgumentError(TargetError):
    """An array that a function of JAX for a TPU is given is not what it was compiled for."""

    code = "SEP537"


class WideIntegerError(TargetError):
    """An integer of a call does not fit the 32 bits that a TPU has."""

    code = "SEP536"


class _TextLoader(importlib.abc.InspectLoader):
    """Makes a module of a text that is no file."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file

    def get_source(self, fullname: str) -> str:
        return self.text

    def get_code(self, fullname: str) -> types.CodeType:
        return compile(self.text, self.file, "exec")


@dataclass(frozen=True)
class CalledTensor:
    """A tensor that the kernel is called with."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    read: bool
    written: bool


@dataclass(frozen=True)
class PallasExecutable:
    """The kernels of one operator, as a Python module that JAX runs."""

    name: str
    function: str
    text: str
    tensors: tuple[CalledTensor, ...]
    scalars: tuple[tuple[str, str], ...]
    """The run-time scalars with their types."""
    arch: str = ""
    """The kind of TPU, as the machine file and JAX call it: ``v5e``."""
    emulator: str = INTERPRETER

    @property
    def source(self) -> Source:
        """The module."""
        return Source(self.name, "python", self.text, {}, figures(self.text))

    def missing(self) -> tuple[str, ...]:
        """What running it needs and this host does not have."""
        return () if has_jax() else (f"JAX ({INSTALL})",)

    @cached_property
    def module(self) -> types.ModuleType:
        """The module, executed once; raises NoJaxError."""
        if not has_jax():
            raise NoJaxError(f"{self.name} is run by JAX, which is not installed", hint=INSTALL)
        file = f"<{self.name} for TPUs>"
        # So that a race and a traceback name lines that can be read.
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(keepends=True), file)
        loader = _TextLoader(self.text, file)
        spec = importlib.util.spec_from_loader(self.function, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        return module

    def jax_function(self, *, interpret: Any = None) -> Callable[..., Any]:
        """A function of JAX arrays, which `jax.jit` takes: those that are read, then the scalars.

        Without `interpret` it is interpreted wherever there is no TPU. Called with arrays of other
        shapes or element types it raises TpuArgumentError.
        """
        import jax

        if interpret is None:
            interpret = False if jax.default_backend() == "tpu" else interpretation()
        function = getattr(self.module, self.function)

        def called(*arguments: Any) -> Any:
            self._check(arguments)
            return function(*arguments, interpret=interpret)

        called.__name__ = self.function
        return called

    def _check(self, arguments: Sequence[Any]) -> None:
        """Raise TpuArgumentError for arrays of other shapes or types, which JAX would not see."""
        read = [tensor for tensor in self.tensors if tensor.read]
        count = len(read) + len(self.scalars)
        if len(arguments) != count:
            names = ", ".join([*(t.name for t in read), *(name for name, _ in self.scalars)])
            message = f"{self.name} takes {count} values ({names}), and got {len(arguments)}"
            raise TpuArgumentError(message)
        for tensor, given in zip(read, arguments, strict=False):
            shape = tuple(np.shape(given))
            dtype = str(getattr(given, "dtype", type(given).__name__))
            if shape != tensor.shape or dtype not in (held(tensor.dtype), tensor.dtype):
                raise TpuArgumentError(
                    f"{self.name}: {tensor.name} is {dtype} of {shape}, "
                    f"not {tensor.dtype} of {tensor.shape}",
                    hint="a kernel is compiled for one shape: pass shapes= and dtypes= of the call",
                )

    @cached_property
    def _functions(self) -> dict[str, Callable[..., Any]]:
        return {}

    def _compiled(self) -> Callable[..., Any]:
        """The function as JAX compiles it at its first call, for transfers as they are wished."""
        import jax

        when = _transfers.get()
        if when not in self._functions:
            self._functions[when] = jax.jit(self.jax_function())
        return self._functions[when]

    def __call__(self, *arguments: Any) -> None:
        """Run on DLPack tensors in the order of the parameters, then the scalars."""
        _ = self.module
        count = len(self.tensors)
        arrays = [
            _elements(x, tensor) for x, tensor in zip(arguments[:count], self.tensors, strict=True)
        ]
        read = [
            _narrowed(array, tensor)
            for array, tensor in zip(arrays, self.tensors, strict=True)
            if tensor.read
        ]
        results = _run(self, self._compiled(), (*read, *arguments[count:]))
        written = [a for a, t in zip(arrays, self.tensors, strict=True) if t.written]
        for array, result in zip(written, results, strict=True):
            array[...] = np.asarray(result).astype(array.dtype)

    def mosaic(self) -> str:
        """The kernel in Mosaic, as `jax.export` lowers it for a TPU that need not be here.

        Raises MosaicError for what a TPU's compiler does not take.
        """
        _ = self.module
        import jax
        from jax import export

        given = [jax.ShapeDtypeStruct(t.shape, _given(t.dtype)) for t in self.tensors if t.read]
        given += [jax.ShapeDtypeStruct((), _given(dtype)) for _, dtype in self.scalars]
        function = jax.jit(self.jax_function(interpret=False))
        try:
            with _imagined(self.arch):
                return str(export.export(function, platforms=["tpu"])(*given).mlir_module())
        except Exception as error:  # of many kinds, all about what is not supported
            first = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
            raise MosaicError(f"{self.name} is no kernel for a TPU: {first}") from error

    def save(self, folder: Path) -> None:
        """The text, and what a call of it takes."""
        (folder / TEXT).write_text(self.text, encoding="utf-8")
        facts = {
            "name": self.name, "function": self.function,
            "tensors": [asdict(t) for t in self.tensors], "scalars": self.scalars,
            "arch": self.arch,
        }  # fmt: skip
        (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")


def build(program: TileProgram, text: str) -> PallasExecutable:
    """The executable of a program's text."""
    read = arguments_of(program)
    tensors = []
    for name in program.params:
        buffer = program.buffer(name)
        written = name in program.outputs
        tensors.append(CalledTensor(name, buffer.shape, buffer.dtype, name in read, written))
    scalars = tuple((s.name, s.dtype) for s in program.scalars)
    return PallasExecutable(
        program.name, function_name(program), text, tuple(tensors), scalars, program.machine.arch
    )


def load(folder: Path) -> PallasExecutable:
    """Return what `PallasExecutable.save` wrote."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    tensors = tuple(CalledTensor(**{**t, "shape": tuple(t["shape"])}) for t in facts["tensors"])
    scalars = tuple((name, dtype) for name, dtype in facts["scalars"])
    text = (folder / TEXT).read_text(encoding="utf-8")
    names = facts["name"], facts["function"]
    return PallasExecutable(*names, text, tensors, scalars, facts["arch"])


def has_jax() -> bool:
    """Whether JAX is installed."""
    return importlib.util.find_spec("jax") is not None


TRANSFERS = ("on_wait", "eager")
"""When a transfer takes effect: when it is waited for, or at once.

One that nobody waits for never happens by the first, which gives wrong numbers; by the second it
is a race with whoever reads what it brings.
"""
_CLOCKS = 1024
"""The clocks that transfers draw one of: two with the same are taken for ordered. JAX has one."""
_transfers = ContextVar("transfers", default=TRANSFERS[0])


@contextlib.contextmanager
def transfers(when: str) -> Iterator[None]:
    """Interpret kernels with transfers that take effect ``on_wait`` (the default) or ``eager``."""
    token = _transfers.set(when)
    yield
    _transfers.reset(token)


def interpretation() -> Any:
    """How kernels are interpreted.

    Memory that nobody has written is NaN, an access beyond a buffer is an error, and what is not
    ordered is a race.
    """
    from jax.experimental.pallas import tpu as pltpu

    return pltpu.InterpretParams(
        detect_races=True, uninitialized_memory="nan", out_of_bounds_reads="raise",
        dma_execution_mode=_transfers.get(),
        vector_clock_size=_CLOCKS,
    )  # fmt: skip


def _imagined(arch: str) -> Any:
    """A context in which JAX lowers for a kind of TPU that need not be here."""
    from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

    device = AbstractDevice(f"TPU {arch}", 1, "tpu")
    return use_abstract_mesh(AbstractMesh((1,), ("core",), abstract_device=device))


def figures(text: str) -> dict[str, Any]:
    """Counts of the text: kernels, transfers, waits, products."""
    return {
        "kernels": text.count("pl.pallas_call("),
        "asynchronous transfers": text.count(".start()"),
        "transfers waited for at once": text.count("pltpu.sync_copy("),
        "waits": text.count(".wait()"),
        "products": text.count("jnp.dot(") + text.count("dot_general("),
    }


def _run(executable: PallasExecutable, function: Callable[..., Any], arguments: Any) -> list[Any]:
    """Results of a call; raises TpuRunError with what the interpreter found."""
    import jax
    from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter

    said = io.StringIO()
    _forget_failures()  # of a function of JAX that the user called, too
    try:
        with contextlib.redirect_stdout(said):
            results = jax.block_until_ready(function(*arguments))
    except jax.errors.JaxRuntimeError as error:
        _forget_failures()
        raise TpuRunError(f"{executable.name}: {_last_line(str(error))}") from error
    races = said.getvalue()
    if "RACE DETECTED" in races or getattr(interpreter.races, "races_found", False):
        raise TpuRunError(f"{executable.name} has a race: {_race(races)}")
    return list(results) if isinstance(results, tuple | list) else [results]


def _forget_failures() -> None:
    """Take from JAX what a failed run has left: its memories, and the error that its token holds.

    The interpreter's steps are effects in order, and each waits for the token of the one before:
    the next kernel would end with the error of the last one.
    """
    from jax._src.dispatch import runtime_tokens
    from jax.experimental.pallas import tpu as pltpu

    runtime_tokens.clear()
    pltpu.reset_tpu_interpret_mode_state()


def _race(text: str) -> str:
    """The two accesses of the first race, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("clock")]
    return " and ".join(lines[1:3])


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip() and line[0].isalpha()]
    return lines[-1] if lines else text.strip()


def _elements(x: Any, tensor: CalledTensor) -> np.ndarray[Any, Any]:
    """The memory of a tensor as an array of its type."""
    flat = as_bytes(x)[: math.prod(tensor.shape) * numpy_dtype(tensor.dtype).itemsize]
    return flat.view(numpy_dtype(tensor.dtype)).reshape(tensor.shape)


def _given(dtype: str) -> np.dtype[Any]:
    return numpy_dtype(dtype if dtype == "bool" else held(dtype))


def _narrowed(array: np.ndarray[Any, Any], tensor: CalledTensor) -> np.ndarray[Any, Any]:
    """An array as a TPU holds it; raises WideIntegerError."""
    found = array.astype(_given(tensor.dtype))
    if array.dtype.itemsize == 8 and not np.array_equal(found, array):
        raise WideIntegerError(
            f"{tensor.name} has an integer that does not fit 32 bits, and a TPU has no more"
        )
    return found
