"""The kernel, which `septran.compile` returns and users call."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from septran import argument_checks
from septran.errors import SepTranError
from septran.runtime.archive import write_archive
from septran.runtime.arguments import (
    Bound,
    Scalar,
    bind,
    by_name,
    check_against,
    compact,
    given_or_new,
    scalar_values,
    with_integers,
)
from septran.runtime.arrays import NUMPY, Library
from septran.runtime.calls import FastCall, call_key, outputs_of, plan_for
from septran.runtime.checks import Check, check, sample
from septran.runtime.direct.caller import Caller
from septran.runtime.errors import (
    NoLogicError,
    NotPickledError,
    NotSpecialisedError,
    NotTimedError,
)
from septran.runtime.gpu import measure_on_gpu, on_device, to_device
from septran.runtime.guard.check import run_guarded
from septran.runtime.instrumented_call import instrumented_call
from septran.runtime.library.export import export
from septran.runtime.profile import Profile, measure, profile
from septran.runtime.signature import Signature, Specialisation, edited, only_for
from septran.runtime.stages import Stages
from septran.runtime.warm import Warming, not_kept, warmed
from septran.stage import Displayable, view
from septran.targets.base import CycleProfile, SelfProfiling, Untimed
from septran.task.errors import InferenceError
from septran.task.reference import run_tree
from septran.tile.interpret.interpreter import interpret
from septran.tile.nodes import Remark

Retarget = Callable[[str], "Kernel"]
"""A function from the name of a processor to the same kernel for it."""
Specialise = Callable[[Mapping[str, tuple[int, ...]], Mapping[str, str]], Specialisation]
"""A function from the shapes and dtypes of a call's tensors to a compilation."""
Sizes = Mapping[str, tuple[int, ...]]
"""The extents of tensors by name."""
ReadSizes = Callable[[Any, Any], tuple[Sizes, Mapping[str, str]]]
"""A function from shapes and dtypes, as `septran.compile` takes them, to those of all tensors."""


def _as_given(shapes: Any, dtypes: Any) -> tuple[Sizes, Mapping[str, str]]:
    """Read shapes and dtypes of tensors by name."""
    return argument_checks.shapes(shapes), argument_checks.as_mapping(
        "dtypes", dtypes, "{'A': 'float16'}"
    )


MOST_COMPILATIONS = 128
"""The number of shapes that a kernel keeps code for, some 0.4 MiB each."""


class Kernel(Displayable):
    """A logic on a machine, called like a function of arrays.

    ``k(a, b)`` allocates the outputs and returns them, ``k(a, b, out=c)`` fills `c`;
    scalars go by keyword. Arrays are NumPy's or torch's, and results of the same kind.
    A kernel compiles itself when it first meets a combination of shapes and dtypes. It keeps
    the `MOST_COMPILATIONS` that were used last, and the stages before the code of the latest;
    what is missing is made again, the code mostly from the cache.
    """

    def __init__(
        self,
        signature: Signature,
        specialise: Specialise,
        *,
        logic: Any = None,
        device: str = "cpu",
        compiled: tuple[Specialisation, ...] = (),
        sizes: ReadSizes = _as_given,
        retarget: Retarget | None = None,
    ) -> None:
        """`device` is the torch device type whose memory the kernel reaches.

        `compiled` are ready compilations; a kernel with them and without `logic` was
        loaded from a file. `retarget` makes the same kernel for another processor; `sizes` gives
        the shapes and dtypes of all tensors for what `warm` is given, or a call.
        """
        self.signature = argument_checks.require(
            "signature", signature, Signature, "call septran.compile"
        )
        self.logic = logic
        self.device = device
        self._specialise = specialise
        self._sizes = sizes
        self._retarget = retarget
        self._specialisations: list[Specialisation] = list(compiled)
        self._loaded = bool(compiled) and logic is None
        self._requests: dict[Hashable, Specialisation] = {}
        self._scalars = frozenset(s.name for s in signature.scalars)
        self._input_names = tuple(t.name for t in signature.inputs)
        self._integers = any(t.span is not None for t in signature.tensors)
        self._plans: dict[Hashable, FastCall] = {}
        self._caller = Caller(self, signature, Kernel.__call__)
        self._notes: dict[Remark, None] = {}
        self._lock = threading.RLock()

    def __deepcopy__(self, memo: Any) -> Kernel:
        """Return the kernel itself, as a copied function is: copies of a model share its code."""
        return self

    def __copy__(self) -> Kernel:
        return self

    def __reduce__(self) -> Any:
        raise NotPickledError(
            f"the kernel {self.name} cannot be pickled",
            hint="keep its code by kernel.save and septran.load, or compile it where it is needed",
        )

    @property
    def name(self) -> str:
        """The name of the entry task."""
        return self.signature.name

    @property
    def specialisations(self) -> tuple[Specialisation, ...]:
        """The compilations so far, the latest last."""
        return tuple(self._specialisations)

    @property
    def stages(self) -> Stages:
        """The stages of the latest compilation; raises NotSpecialisedError before the first."""
        return self._latest().stages

    @property
    def timings(self) -> dict[str, float]:
        """The seconds of each step of the latest compilation."""
        return self._latest().stages.timings

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The compiler's decisions and missed optimisations, then the copies made by calls."""
        if not self._specialisations:
            return tuple(self._notes)
        made: tuple[Remark, ...] = getattr(self.stages.tile_program, "remarks", ())
        if "tensor_ir" in self.stages.made:
            made += getattr(self.stages.tensor_ir, "remarks", ())
        return (*made, *self._notes)

    def __call__(self, *tensors: Any, out: Any = None, **named: Any) -> Any:
        """Run on `tensors`, the inputs in the logic's order, and return the outputs.

        The outputs are new arrays, or those of `out`; scalars are passed by name. Raises
        ArgumentCountError, ArgumentShapeError, ArgumentDtypeError and the other errors of
        septran/runtime/errors.py, all mistakes of a call together as Errors.
        """
        if self._integers:
            tensors, named = with_integers(self.signature, tensors, named, self.device)
        if named and not self._scalars.issuperset(named):
            tensors, named = self._by_position(tensors, named)
        plan = self._plans.get(call_key(tensors, out))
        # A plan is for tensors by position alone; what else there is takes the slow path.
        if plan is not None and (not named or self._scalars.issuperset(named)):
            result = plan(tensors, out, named)
            if result is not NotImplemented:
                return result
        return self._call(tensors, out, named)

    def reference(
        self, *tensors: Any, dtype: str | None = "float64", out: Any = None, **named: Any
    ) -> Any:
        """Return the logic's meaning: the result of its sequential run on NumPy.

        It runs in float64 throughout, or in the logic's own dtypes where `dtype` is None. Takes
        the arguments of a call, or the same on the host, where it runs, and returns new arrays of
        the same kind; `out` is only read. Raises NoLogicError for a loaded kernel.
        """
        self._needs_logic("reference")
        specialisation, bound, scalars = self._bound(
            tensors, out, named, self._host_or_device(tensors, out, named)
        )
        results = run_tree(
            specialisation.stages.task_tree, bound.numpy(), by_name(specialisation, scalars), dtype
        )
        return self._returned(results, bound.library)

    def interpret(
        self, *tensors: Any, order: str | int = "early", out: Any = None, **named: Any
    ) -> Any:
        """Run the tile program on NumPy, node by node, with every access checked.

        `order` is when asynchronous copies land: ``early``, ``late``, or a seed for random
        moments. Takes the arguments of a call, or the same on the host, where it runs, and returns
        new arrays of the same kind. Raises TileError for a wrong program, NoLogicError for a
        loaded kernel.
        """
        self._needs_logic("interpreter")
        specialisation, bound, scalars = self._bound(
            tensors, out, named, self._host_or_device(tensors, out, named)
        )
        arrays = bound.numpy()
        for tensor in specialisation.tensors:
            if tensor.writes and tensor.reads and tensor.name not in arrays:
                arrays[tensor.name] = NUMPY.zeros(tensor.shape or (), tensor.dtype or "", "cpu")
        program, numbers = specialisation.stages.tile_program, by_name(specialisation, scalars)
        results = interpret(program, arrays, order=order, scalars=numbers)
        return self._returned(results, bound.library)

    def check(self, *tensors: Any, out: Any = None, guard: bool = False, **named: Any) -> Check:
        """Run and compare with the exact result by the bound that rounding allows.

        It also finds writes beside the tensors and elements that are never written. With `guard`
        every tensor and scratch buffer lies between guard pages, in a process of its own: reads
        beyond them are found, too, on a CPU. Without tensors, random ones of the latest
        compilation's shapes are used. Raises NoLogicError for a loaded kernel.
        """
        self._needs_logic("reference to check against")
        tensors, named = self._inputs(tensors, named)
        specialisation, bound, scalars = self._bound(tensors, out, named)
        plain = replace(bound, library=NUMPY, arrays=bound.numpy())

        def launch(arrays: Sequence[Any]) -> Sequence[str]:
            if guard and not any(0 in array.shape for array in arrays):
                return run_guarded(specialisation, arrays, scalars)
            with on_device(arrays, self.device) as (library, moved):
                self._launch(specialisation, replace(plain, library=library), moved, scalars)
            return ()

        return check(self.name, specialisation, plain.arrays, scalars, launch)

    def sample(self, seed: int = 0) -> dict[str, Any]:
        """Return random inputs by name, as NumPy arrays, for the latest compilation."""
        return sample(self._latest(), argument_checks.as_int("seed", seed, 0))

    def profile(
        self,
        *tensors: Any,
        out: Any = None,
        repeat: int | None = None,
        timeline: bool = False,
        **named: Any,
    ) -> Profile | CycleProfile:
        """Time calls and compare them with the machine's limits; on a DSA, count cycles.

        `repeat` is the number of samples; where None, as many as fit into about 0.3 seconds (50 on
        a GPU). A simulated run is deterministic, so there is one, and it includes a timeline;
        other profiles do with `timeline`, that of one more call (`Kernel.timeline`). Without
        tensors, random ones of the latest compilation's shapes are used. Raises NotTimedError on
        an emulator, which has no times.
        """
        repeat = None if repeat is None else argument_checks.as_int("repeat", repeat, 1)
        tensors, named = self._inputs(tensors, named)
        specialisation, bound, scalars = self._bound(tensors, out, named)
        executable = specialisation.stages.executable
        if isinstance(executable, SelfProfiling):
            run = instrumented_call(self.name, specialisation, bound, scalars, self.device)
            return run.profile()
        if isinstance(executable, Untimed):
            raise NotTimedError(
                f"{self.name} is run by {executable.emulator}, which has no times of the "
                "processor that it was compiled for",
                hint="kernel.check says whether it is right; kernel.save(path) keeps it for where "
                "its own processor is",
            )
        if out is None:
            out = self(*tensors, **named)  # so that allocation is not timed
        others = {
            k: v for k, v in named.items() if k not in {t.name for t in self.signature.outputs}
        }
        time = measure if self.device == "cpu" else measure_on_gpu
        samples = time(lambda: self(*tensors, out=out, **others), repeat)
        times = self.timeline(*tensors, **others) if timeline else None
        return profile(self.name, samples, specialisation.limits, times)

    def _inputs(
        self, tensors: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the inputs to check or measure with, random ones without any, on the device."""
        if not tensors and not named and self.signature.inputs:
            tensors = tuple(self.sample().values())
        if self._integers:
            tensors, named = with_integers(self.signature, tensors, named, self.device)
        moved = tuple(to_device(x, self.device) for x in tensors)
        return moved, {name: to_device(x, self.device) for name, x in named.items()}

    def timeline(self, *tensors: Any, **named: Any) -> Any:
        """Return when each engine, warp or block of one call worked: a `Timeline` of its own run.

        On a CPU or a GPU the kernel is compiled once more with instrumentation, so that its blocks
        or warpgroups record their times; on a DSA and in the GPU's emulator it is the trace of
        `profile`. Raises NoTimelineError elsewhere.
        """
        tensors, named = self._inputs(tensors, named)
        run = instrumented_call(self.name, *self._bound(tensors, None, named), self.device)
        return view(run, "timeline")

    def warm(self, shapes: Any, dtypes: Any = None) -> Warming:
        """Compile for some shapes before a call needs them, and keep the code in the cache.

        Another process that is called with them, or warms them, too, then finds it. `shapes` is a
        list of what `septran.compile` takes as `shapes`, or one of these; `dtypes` as there. They
        are compiled in turn: LLVM holds Python's lock, so that threads would not be faster.
        Raises what the compilation of any of them raises; those before it are kept.
        """
        self._needs_logic("code for other shapes")
        each = [shapes] if isinstance(shapes, Mapping) else shapes
        kernels = []
        for one in argument_checks.as_tuple("shapes", each, "[{'M': 1}, {'M': 64}]"):
            since = time.perf_counter()
            kernels.append(warmed(one, self.specialise(*self._sizes(one, dtypes)), since))
        return Warming(self.name, tuple(kernels), not_kept())

    def export(
        self,
        folder: str | Path,
        *,
        name: str | None = None,
        arch: str | Sequence[str] | None = None,
    ) -> Path:
        """Write the latest compilation as files that build without SepTran and TVM.

        For NVIDIA GPUs: one CUDA C++ file, to build with nvcc, and a loader for torch tensors. For
        CPUs a library: a C header, a shared and a static library, build files, examples that check
        themselves. For DSAs: the C for the vendor's library, and what builds it. For OpenCL and
        AMD's GPUs: the kernels' text and a host program in C. `name` is the library's, the kernel's
        own where None; `arch` names the processors that it is to have code for, of which it takes
        the best that a host has.
        `septran.export` writes several kernels as one library. Returns the main file's path;
        raises NotExportableError where the target cannot.
        """
        return export({self.name: self}, folder, name=name, arch=arch)

    def for_arch(self, arch: str) -> Specialisation:
        """Return the latest compilation, made for another processor; raises TargetError."""
        self._needs_logic("code for another processor")
        if self._retarget is None:
            raise NoLogicError(f"{self.name} has no machine file whose arch could be another")
        latest = self._latest()
        return self._retarget(arch).specialise(latest.shapes, latest.dtypes)

    def save(self, path: str | Path) -> None:
        """Write all compilations to a folder, or to one file where `path` ends in ``.zip``.

        `septran.load` reads the kernel, without its logic: for these shapes only. Raises
        ArchiveError.
        """
        self._latest()
        write_archive(
            argument_checks.as_path("path", path), self.signature, self.device, self.specialisations
        )

    def with_source(self, text: str) -> Kernel:
        """Return the kernel of the latest compilation with its generated code edited.

        It is called, checked and profiled as this one is, for the same shapes: the C of a DSA on
        the simulator, a GPU's text on the emulator. ``stages.source.difference()`` shows what
        differs. The text is compiled at once, for the simulator or the emulator. Raises
        EditedCodeError where the code is not compiled of text, and TargetError where the edited one
        does not compile, or lacks the kernel that is called.
        """
        argument_checks.require("text", text, str, "pass str(kernel.stages.source), edited")
        found = edited(self.name, self._latest(), text)
        others = partial(only_for, self.name, found)
        return Kernel(
            self.signature, others, logic=self.logic, device=self.device, compiled=(found,)
        )

    def explore(self) -> Any:
        """Show all stages in linked panes, live in a notebook (``septran[notebook]``)."""
        return view(self, "live")

    def __repr__(self) -> str:
        return f"<Kernel {self.signature}, {len(self._specialisations)} compiled>"

    def specialise(
        self, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str]
    ) -> Specialisation:
        """Return the compilation for these shapes and dtypes, made at the first request."""
        shapes = argument_checks.shapes(shapes)
        dtypes = argument_checks.as_mapping("dtypes", dtypes, "{'A': 'float16'}")
        request = (tuple(sorted(shapes.items())), tuple(sorted(dtypes.items())))
        with self._lock:
            known = self._requests.get(request)
            if known is None:
                known = self._requests[request] = self._fresh(shapes, dtypes)
            else:
                known.use.recent = True
            return known

    def _fresh(
        self, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str]
    ) -> Specialisation:
        if self._loaded:
            for known in self._specialisations:
                if known.accepts(shapes, dtypes):
                    return known
        with suppress(SepTranError):  # which the compilation raises, too
            shapes, dtypes = self._sizes(shapes, dtypes)
            for known in self._specialisations:  # asked for with or without its outputs
                if known.shapes == shapes and known.dtypes == dtypes:
                    return known
        try:
            fresh = self._specialise(shapes, dtypes)
        except InferenceError:  # what does not follow from the inputs was given when compiling
            fitting = [k for k in self._specialisations if k.accepts(shapes, dtypes)]
            if len(fitting) != 1:
                raise
            return fitting[0]
        self._specialisations.append(fresh)
        self._forget()
        return fresh

    def _forget(self) -> None:
        """Drop compilations that were not used lately, and the early stages of the others.

        This is the clock algorithm: each compilation is examined in turn, the oldest first, and
        gets a second chance if it was used since. That is cheaper for calls than a list in the
        order of use.
        """
        kept = self._specialisations
        while len(kept) > MOST_COMPILATIONS:
            oldest = kept.pop(0)
            if oldest.use.recent:
                oldest.use.recent = False
                # Before the latest, which has to stay the last.
                kept.insert(-1, oldest)
                continue
            self._requests = {k: s for k, s in self._requests.items() if s is not oldest}
            plans = list(self._plans.items())  # other threads may add to them
            self._plans = {k: plan for k, plan in plans if plan.use is not oldest.use}
            self._caller.forget(oldest.use)
        for other in kept[:-1]:
            other.stages.forget()

    def _by_position(
        self, tensors: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Put inputs that are passed by name into their places; as given where one is missing."""
        rest = self._input_names[len(tensors) :]
        if not named.keys() >= set(rest):
            return tensors, named
        by_name = {name: x for name, x in named.items() if name not in rest}
        return (*tensors, *(named[name] for name in rest)), by_name

    def _call(self, tensors: Sequence[Any], out: Any, named: Mapping[str, Any]) -> Any:
        """Take the slow path: every check, and copies of arrays that cannot be passed."""
        specialisation, bound, scalars = self._bound(tensors, out, named)
        results = self._run(specialisation, bound, scalars)
        self._remember(tensors, out, specialisation, bound.library)
        if out is not None and not isinstance(out, Mapping):
            return out
        return self._returned(results)

    def _host_or_device(self, tensors: Sequence[Any], out: Any, named: Mapping[str, Any]) -> str:
        """Where the arrays lie for a call that needs no device: there if one of them does."""
        outs = out.values() if isinstance(out, Mapping) else (out,)
        given = (*tensors, *named.values(), *(outs if not isinstance(out, tuple | list) else out))
        places = {str(getattr(x, "device", "cpu")).partition(":")[0] for x in given}
        return self.device if self.device in places else "cpu"

    def _bound(
        self,
        tensors: Sequence[Any],
        out: Any,
        named: Mapping[str, Any],
        device: str | None = None,
    ) -> tuple[Specialisation, Bound, Sequence[Scalar]]:
        """Return a call's arguments, checked, and the compilation that they need."""
        if self._integers:
            tensors, named = with_integers(self.signature, tensors, named, device or self.device)
        bound = bind(self.signature, tensors, out, named, device or self.device)
        fixed = not bound.arrays and not self.signature.inputs  # no argument has the shapes
        known = self._specialisations[-1] if fixed and self._specialisations else bound
        specialisation = self.specialise(known.shapes, known.dtypes)
        check_against(self.name, specialisation, bound)
        scalars = scalar_values(self.name, specialisation.scalars, bound.scalars)
        return specialisation, bound, scalars

    def _returned(self, results: Mapping[str, Any], library: Library | None = None) -> Any:
        """Return the outputs alone or as a tuple; NumPy arrays become those of `library`."""
        written = [results[t.name] for t in self.signature.outputs]
        if library is not None:
            written = [library.like_numpy(x) for x in written]
        return written[0] if len(written) == 1 else tuple(written)

    def _run(
        self, specialisation: Specialisation, bound: Bound, scalars: Sequence[Scalar]
    ) -> dict[str, Any]:
        library = bound.library
        arguments: list[Any] = []
        arrays: dict[str, Any] = {}
        back: list[tuple[Any, Any]] = []
        for tensor in specialisation.tensors:
            x = arrays[tensor.name] = given_or_new(tensor, bound, self.device)
            reason = library.awkward(x)
            arguments.append(x if reason is None else compact(tensor, x, library, self.device))
            if reason is not None:
                self._note(tensor.name, reason)
                if tensor.writes:
                    back.append((x, arguments[-1]))
        self._launch(specialisation, bound, arguments, scalars)
        for target, source in back:
            library.assign(target, source)
        written = [t.name for t in specialisation.tensors if t.writes]
        library.touched(tuple(arrays[name] for name in written if name in bound.arrays))
        return arrays

    def _launch(
        self,
        specialisation: Specialisation,
        bound: Bound,
        arguments: Sequence[Any],
        scalars: Sequence[Scalar],
    ) -> None:
        tensors = specialisation.tensors
        if all(0 in (t.shape or ()) for t in tensors if t.writes):
            return  # nothing to compute, so nothing is launched
        if not any(0 in (t.shape or ()) for t in tensors):
            passed = map(bound.library.passed, arguments)
            specialisation.stages.executable(*passed, *scalars)
            return
        self._needs_logic("code for empty inputs")
        # A sum of no terms: what the logic gives for it is cheap, and needs no code.
        numbers = by_name(specialisation, scalars)
        results = run_tree(specialisation.stages.task_tree, bound.numpy(), numbers)
        for tensor, target in zip(tensors, arguments, strict=True):
            if tensor.writes:
                bound.library.assign(target, bound.library.like_numpy(results[tensor.name]))

    def _remember(
        self, tensors: Sequence[Any], out: Any, specialisation: Specialisation, library: Library
    ) -> None:
        """Leave a plan for later calls of this kind."""
        key = call_key(tensors, out)
        outputs = outputs_of(out)
        if key is None or len(tensors) != len(self.signature.inputs):
            return
        if len(outputs) not in (0, len(self.signature.outputs)):
            return
        if not all(map(library.plain, (*tensors, *outputs))):
            return
        plan = plan_for(specialisation, self.signature, library, self.device)
        # NumPy exchanges no bfloat16: an output of it goes the long way, whoever allocates it.
        if plan is not None and all(library.plain(allocate()) for allocate in plan.allocators):
            self._plans[key] = plan
            if self._caller.add(plan, specialisation) and not self.direct:
                self._call_directly()

    def _call_directly(self) -> None:
        """Change the class to one that is called by compiled code."""
        # Python looks `__call__` up in the class, not in the instance.
        call = self._caller.function()
        if call is not None:
            members = {"__call__": call, "__signature__": CALLED_AS, "__module__": __name__}
            self.__class__ = type("Kernel", (Kernel,), members)

    @property
    def direct(self) -> bool:
        """Whether calls like those before go straight to compiled code, which checks them."""
        return type(self) is not Kernel

    def _note(self, tensor: str, reason: str) -> None:
        remark = Remark(
            "missed", tensor, f"{tensor} is copied at each such call: {reason}",
            hint="pass a contiguous array", passed="call",
        )  # fmt: skip
        self._notes[remark] = None

    def _needs_logic(self, what: str) -> None:
        if self._loaded:
            message = f"{self.name} was loaded from a file and has no {what}"
            raise NoLogicError(message, hint="compile it from its logic and mapping")

    def _latest(self) -> Specialisation:
        if not self._specialisations:
            raise NotSpecialisedError(
                f"{self.name} is not compiled yet, as its shapes are not known",
                hint="call it once, or pass shapes= to septran.compile",
            )
        return self._specialisations[-1]


CALLED_AS = inspect.Signature(tuple(inspect.signature(Kernel.__call__).parameters.values())[1:])
"""How a kernel is called, for those that ask Python."""
