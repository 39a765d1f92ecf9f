"""The schema of a machine file, key by key: the source of its checks and its JSON Schema."""

from __future__ import annotations

from typing import Any

from septran import dtypes
from septran.backends import backends
from septran.machine.kinds import (
    FREE,
    IDENTIFIER,
    NAME,
    Choice,
    Either,
    Field,
    Flag,
    Kind,
    ListOf,
    Named,
    Number,
    Record,
    Schema,
    TableOf,
    Text,
    Whole,
    many,
)
from septran.machine.units import BANDWIDTH, BYTES, LATENCY, THROUGHPUT, PowerOfTwo

PRIMITIVES = ("gemm", "map", "fill", "copy", "accumulate")
MACHINE_NAME = Text(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "a machine's name, such as nvidia-h200")
LAYOUT = Text(r"[a-z]+ ?(\([0-9, ]*\)|[0-9]+)?", "a layout, such as row, panels(1, 16), swizzle128")
EDGE = Text(
    rf"{IDENTIFIER} ?<?-> ?{IDENTIFIER}", "an edge between memories, such as GLOBAL->SHARED"
)
_WORD = Text(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}", "a word of letters, digits and . _ + -")
_PROTOTYPE = Text(
    r"[A-Za-z_][A-Za-z0-9_ *{}]{0,120}\([A-Za-z0-9_ *,]{0,600}\) *;?",
    "a C prototype, such as int32_t vendor_sync(void)",
)
_VENDOR_WORD = Text(
    r"[A-Za-z_][A-Za-z0-9_]*([./-][A-Za-z0-9_]+){0,8}", "a C name or a header's file name"
)
_VENDOR_KEY = Text(
    rf"{IDENTIFIER}(\.{IDENTIFIER})?", "a name, or a command and an instruction: mma.gemv"
)

FORMER_KEYS = {"called": "display_name"}
"""The new name of each key that had another one a version ago, which is still read."""
DISPLAY_NAME = {
    "display_name": Field(FREE, "the vendor's name, for display"),
    "called": Field(FREE, "former name of display_name"),
}

PROCESSOR = Record(
    {
        "count": Field(
            Either((Whole(most=1 << 20), Choice(("auto",)))),
            "how many there are in one `of`; auto: as many as this process may use",
        ),
        "of": Field(Named("processor"), "the level that holds it"),
        "launch": Field(
            LATENCY, "to give work to all units and wait for the last; of the host, of a call"
        ),
        **DISPLAY_NAME,
    },
    "a processor",
)
MEMORY = Record(
    {
        "visible_to": Field(
            Named("processor"), "the processor level that shares one instance", required=True
        ),
        "capacity": Field(BYTES, "bytes of one instance; unbounded where missing"),
        "bandwidth": Field(BANDWIDTH, "peak bandwidth of one instance"),
        "write_bandwidth": Field(BANDWIDTH, "that of stores, where it differs"),
        "stream_bandwidth": Field(
            BANDWIDTH, "that of stores past the caches, where there are such"
        ),
        "unit_bandwidth": Field(
            BANDWIDTH, "what one unit draws at most, where several share an instance"
        ),
        "duplex": Field(Flag(), "whether reads and writes each have all of the bandwidth"),
        "latency": Field(LATENCY, "time to the first byte"),
        "alignment": Field(PowerOfTwo(), "bytes that a buffer's start is a multiple of"),
        "row_alignment": Field(PowerOfTwo(), "bytes that each row's start is a multiple of"),
        "cached": Field(Flag(), "whether hardware fills it by itself (a cache level)"),
        **DISPLAY_NAME,
    },
    "a memory",
)
ENGINE = Record(
    {
        "moves": Field(
            Either((Choice(("all",)), ListOf(EDGE, least=1))),
            "edges that it copies along: [GLOBAL->SHARED, SHARED<->REGISTER], or all",
            required=True,
        ),
        "asynchronous": Field(Flag(), "whether a copy goes on beside computation"),
        "completes_by": Field(_WORD, "how completion is seen: return, mbarrier, group, event"),
        "bandwidth": Field(BANDWIDTH, "peak rate"),
        "latency": Field(LATENCY, "from issue to the first byte"),
        "alignment": Field(PowerOfTwo(), "bytes that addresses and rows are multiples of"),
        "queue_depth": Field(Whole(most=1 << 16), "copies that may be outstanding"),
        "layouts": Field(
            ListOf(Text(r"[a-z]+", "a kind of layout"), least=1), "kinds of layout it can write"
        ),
        "transposes": Field(Flag(), "whether it gathers in any order, or contiguous rows only"),
    },
    "an engine",
)
_VALUE: Kind = Either((Flag(), Whole(least=0), Number(positive=False), _WORD))
_LEAF: Kind = Either((_VALUE, ListOf(_VALUE)))
_OPTION: Kind = Either((_VALUE, ListOf(_VALUE), TableOf(_WORD, _LEAF)))
_FIGURES: dict[str, Kind] = {
    "startup_cycles": Whole(least=0),
    "cycles": Number(),
    "lanes": Whole(),
    "exp_factor": Number(),
    "queue_depth": Whole(),
    "unroll": Whole(),
    "sum_bits": Whole(),
    "queue": _WORD,
    "temporaries": Named("memory"),
    "whole_tiles": Flag(),
    "flushes": Flag(),
    "asynchronous": Flag(),
    "along_sum": ListOf(Choice(dtypes.ALL)),
    "either_order": Flag(),
}
"""The options that the compiler itself reads; a user's emitter may have others."""
_LIMITS: dict[str, Kind] = {
    "flags": Whole(least=0),
    "flag_depth": Whole(),
    "issue_cycles": Whole(least=0),
    "clusters": Whole(),
    "assumed": Flag(),
    "limits": TableOf(_VENDOR_KEY, Whole(least=0)),
}
"""What the compiler reads of the vendor section."""
INSTRUCTION = Record(
    {
        "primitive": Field(
            Choice(PRIMITIVES), "what it computes; map: any tensor expression", required=True
        ),
        "dtypes": Field(
            ListOf(ListOf(Choice(dtypes.ALL), least=1, most=8), least=1),
            "accepted dtypes, one list an option, operands in the primitive's order (C, A, B)",
        ),
        "tile": Field(ListOf(Whole(), least=1, most=8), "extents of one issue (m, n, k)"),
        "multiple_of": Field(
            ListOf(Whole(), least=1, most=8), "what the extents must be multiples of (m, n, k)"
        ),
        "operands": Field(TableOf(NAME, many(Named("memory"))), "memories of each operand"),
        "layouts": Field(TableOf(NAME, LAYOUT), "layout that each operand must have"),
        "panels": Field(
            ListOf(Whole(), least=1, most=2),
            "how an operand is packed for it where a mapping says panels(axis): so many rows or "
            "columns, and of each so many elements along the sum side by side",
        ),
        "requires": Field(
            ListOf(Text(r"[a-z0-9][a-z0-9.-]{0,31}", "a feature in LLVM's words, such as avx2")),
            "features of the processor that it needs",
        ),
        "issued_by": Field(Named("processor"), "the level that issues it"),
        "throughput": Field(
            Either((THROUGHPUT, TableOf(_WORD, THROUGHPUT, least=1))),
            "multiply-adds or elements a cycle of one issuing unit; one for each arch where "
            "they differ, widest first",
        ),
        "costs": Field(
            TableOf(_WORD, Number()), "how many operations a function of one element counts as"
        ),
        "options": Field(TableOf(_WORD, _OPTION, known=_FIGURES), "for its emitter alone"),
    },
    "an instruction",
)
MACHINE = Record(
    {
        "name": Field(MACHINE_NAME, "the machine's name", required=True),
        "backend": Field(
            Choice(tuple(backends())), "which code generator serves it", required=True
        ),
        "extends": Field(MACHINE_NAME, "the shipped machine that gives what is not here"),
        "arch": Field(_WORD, "what the code generator calls the processor"),
        **DISPLAY_NAME,
        "clock_mhz": Field(Number(), "cycles a microsecond"),
        "processors": Field(
            TableOf(NAME, PROCESSOR, least=1), "levels, outermost first", required=True
        ),
        "memories": Field(TableOf(NAME, MEMORY, least=1), "memories, largest first", required=True),
        "engines": Field(TableOf(NAME, ENGINE), "what moves data; the first that fits is taken"),
        "instructions": Field(TableOf(NAME, INSTRUCTION), "what computes, preferred first"),
        "aliases": Field(
            TableOf(Text(r"[A-Za-z_*][A-Za-z0-9_*]{0,63}", "a name, perhaps with *"), NAME),
            "other words for its processors, memories and instructions",
        ),
        "vendor": Field(
            TableOf(
                NAME,
                Either(
                    (
                        _VENDOR_WORD,
                        Whole(least=0),
                        Flag(),
                        ListOf(_VENDOR_WORD),
                        TableOf(_VENDOR_KEY, Either((_VENDOR_WORD, Whole(least=0), _PROTOTYPE))),
                    )
                ),
                known=_LIMITS,
            ),
            "the vendor library's names and limits (DSAs)",
        ),
    },
    "a machine",
)


def machine_schema() -> Schema:
    """Return the JSON Schema of machine files (draft 2020-12)."""
    whole = MACHINE.schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "SepTran machine",
        "description": "What a piece of hardware is: processors, memories, engines, instructions.",
        "if": {"required": ["extends"]},
        "then": {**_without_required(whole), "required": ["name", "extends"]},
        "else": whole,
    }


def _without_required(value: Any) -> Any:
    """A schema of what may leave anything out, as the machine that it extends has it."""
    if isinstance(value, list):
        return [_without_required(v) for v in value]
    if not isinstance(value, dict):
        return value
    kept = {k: v for k, v in value.items() if k != "required" or not isinstance(v, list)}
    return {k: _without_required(v) for k, v in kept.items()}
