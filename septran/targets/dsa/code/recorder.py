"""The simulated vendor library: C functions that only record, made from the machine file.

It defines what the vendor's header declares, and is compiled with that header: one that
disagrees with the machine file is a C error with the header's line. Each call appends a
record (`commands.RECORD`) to a growing array. A kernel is compiled with macros around the
calls that note its lines, so that its text stays as a vendor wants it.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from septran.simulator.commands import (
    ADDRESS,
    ARGUMENTS,
    CODES,
    DTYPES,
    LOCAL_BITS,
    PARAMETER_BITS,
    VALUE,
    Argument,
)
from septran.targets.dsa.code.vendor import (
    INTEGERS,
    KEYS,
    POINTER,
    Function,
    Vendor,
    base,
    floating,
    members,
)

BEGIN, TAKE, LINE = "septran_begin", "septran_take", "septran_line"
FORGET = "septran_forget"
"""What the recorder exports: start anew for a core, hand the records over, the line; and give
their memory back."""

LOST = -1
"""What `TAKE` gives where memory ran out."""
REFUSED = -2
"""What it gives where a call broke a rule of the vendor's language."""

_HEAD = f"""\
/* Records what a control program asks for; made from the vendor section of a machine file. */
#include "{{header}}"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {{{{
    int32_t code, core, line, pad;
    int64_t arguments[{ARGUMENTS}];
}}}} septran_record;

static septran_record *septran_records, septran_rest;
static int64_t septran_count, septran_room;
static int32_t septran_core, septran_lost;
int32_t {LINE};

void {BEGIN}(int32_t core);
int64_t {TAKE}(const void **first);
void {FORGET}(void);

void {BEGIN}(int32_t core)
{{{{
    septran_core = core;
    septran_count = septran_lost = {LINE} = 0;
}}}}

int64_t {TAKE}(const void **first)
{{{{
    *first = septran_records;
    return septran_lost ? {LOST} : septran_count;
}}}}

void {FORGET}(void)
{{{{
    free(septran_records);
    septran_records = 0;
    septran_count = septran_room = 0;
}}}}

static int64_t *septran_next(int32_t code)
{{{{
    septran_record *one = &septran_rest;
    if (septran_count == septran_room && !septran_lost) {{{{
        int64_t room = septran_room ? 2 * septran_room : 4096;
        void *more = realloc(septran_records, (size_t)room * sizeof *one);
        if (more) {{{{
            septran_records = more;
            septran_room = room;
        }}}} else {{{{
            septran_lost = 1;
        }}}}
    }}}}
    if (!septran_lost) one = &septran_records[septran_count++];
    memset(one, 0, sizeof *one);
    one->code = code;
    one->core = septran_core;
    one->line = {LINE};
    return one->arguments;
}}}}

static inline int64_t septran_bits(double value)
{{{{
    int64_t result;
    memcpy(&result, &value, sizeof result);
    return result;
}}}}
"""


def recorder_source(vendor: Vendor) -> str:
    """The C of the library for a machine."""
    parts = [_HEAD.format(header=vendor.header)]
    for key, function in vendor.functions.items():
        if key == POINTER:
            parts += _pointers(vendor, function)
        else:
            parts += _recorders(key, function, vendor.queue_of(key))
    return "\n".join(parts)


def line_macros(vendor: Vendor) -> str:
    """Return what is included before a kernel's own text."""
    lines = [f'#include "{vendor.header}"', f"extern int32_t {LINE};"]
    for key, function in vendor.functions.items():
        for _, name, _ in members(key, function) if key != POINTER else ():
            # C expands no macro within its own expansion: the inner name is the function's.
            lines.append(f"#define {name}(...) ({LINE} = __LINE__, {name}(__VA_ARGS__))")
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _pointers(vendor: Vendor, function: Function) -> Iterator[str]:
    """Addresses that no memory has: the stream is about them, nothing is stored there."""
    for number, memory in enumerate(vendor.machine.memories):
        name = function.name.replace("{memory}", memory.name.lower())
        base = (1 << LOCAL_BITS) + (number << PARAMETER_BITS)
        parameters = ", ".join(f"{p.type} {p.name}" for p in function.parameters)
        yield (
            f"{function.result} {name}({parameters})\n"
            f"{{\n    return ({function.result})(intptr_t)(INT64_C({base}) + offset);\n}}\n"
        )


def _recorders(key: str, function: Function, queue: int | None) -> Iterator[str]:
    """`queue` is the only one that it serves, where it is of one instruction alone."""
    parameters = ", ".join(f"{p.type} {p.name}" for p in function.parameters) or "void"
    given = {p.name for p in function.parameters}
    for extern, member, dtype in members(key, function):
        fills = []
        for place, argument in enumerate(KEYS[base(key)].arguments):
            value = _value(argument, base(key), given, dtype)
            if argument.name == "queue" and value is None and queue is not None:
                value = str(queue)
            if value is not None:
                fills.append(f"    septran_arguments[{place}] = {value};")
        start = f"septran_next({CODES[extern]});"
        start = f"    int64_t *septran_arguments = {start}" if fills else f"    {start}"
        end = [] if function.result == "void" else ["    return 0;"]
        body = "\n".join([start, *fills, *end])
        yield f"{function.result} {member}({parameters})\n{{\n{body}\n}}\n"


def _value(argument: Argument, key: str, given: Set[str], dtype: str) -> str | None:
    """Return what a record holds for an argument; None leaves the zero."""
    if argument.name == "type" and dtype:
        return str(DTYPES.index(dtype))
    if argument.name not in given:
        return None
    if argument.kind == ADDRESS:
        return f"(int64_t)(intptr_t){argument.name}"
    whole = f"(int64_t){argument.name}"
    if argument.kind != VALUE or key.endswith(INTEGERS):
        return whole
    bits = f"septran_bits((double){argument.name})"
    if dtype or "type" not in given:
        return bits if not dtype or floating(dtype) else whole
    # In `DTYPES` the integers come before the floats.
    return f"type < {DTYPES.index('float16')} ? {whole} : {bits}"
