"""The simulated vendor library: C functions that only record, made from the machine file.

It defines what the vendor's header declares, and is compiled with that header: one that
disagrees with the machine file is a C error with the header's line. Each call appends a
record (`commands.RECORD`) to a growing array. The text is included before a kernel's own, so
that its macros can note the kernel's lines and the kernel's text stays as a vendor wants it.
"""

from __future__ import annotations

from collections.abc import Iterator

from septran.targets.dsa.commands import (
    ADDRESS,
    ARGUMENTS,
    CODES,
    COMMANDS,
    DTYPES,
    LOCAL_BITS,
    PARAMETER_BITS,
    VALUE,
    Argument,
)
from septran.targets.dsa.vendor import Function, Vendor, members

BEGIN, TAKE, LINE = "septran_begin", "septran_take", "septran_line"
"""What the recorder exports: start anew for a core, hand the records over, the line."""

_HEAD = f"""\
/* Records what a control program asks for; made from the vendor section of a machine file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "{{header}}"

typedef struct {{{{ int32_t code, core, line, pad; int64_t arguments[{ARGUMENTS}]; }}}} record;

static record *records;
static int64_t count, room;
static int32_t core;
int32_t {LINE};

void {BEGIN}(int32_t number);
int64_t {TAKE}(const void **first);

void {BEGIN}(int32_t number) {{{{ core = number; count = 0; }}}}

int64_t {TAKE}(const void **first) {{{{ *first = records; return count; }}}}

static int64_t *next(int32_t code)
{{{{
    if (count == room) {{{{
        room = room ? 2 * room : 4096;
        records = realloc(records, (size_t)room * sizeof(record));
        if (!records) abort();
    }}}}
    record *one = &records[count++];
    memset(one, 0, sizeof *one);
    one->code = code;
    one->core = core;
    one->line = {LINE};
    return one->arguments;
}}}}

static inline int64_t bits(double value, int64_t type)
{{{{
    int64_t result;
    if (type < {DTYPES.index("float16")}) return (int64_t)value;
    memcpy(&result, &value, sizeof result);
    return result;
}}}}
"""


def recorder_source(vendor: Vendor) -> str:
    """The C that is included before a kernel for a machine."""
    parts, macros = [_HEAD.format(header=vendor.header)], []
    for name, function in vendor.functions.items():
        if name == "pointer":
            parts += _pointers(vendor, function)
            continue
        parts += _recorders(name, function)
        for _, member, _ in members(COMMANDS[name], function):
            macros.append(f"#define {member}(...) ({LINE} = __LINE__, {member}(__VA_ARGS__))")
    return "\n".join([*parts, *macros]) + "\n"


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


def _recorders(name: str, function: Function) -> Iterator[str]:
    command = COMMANDS[name]
    parameters = ", ".join(f"{p.type} {p.name}" for p in function.parameters) or "void"
    given = {p.name: p.type for p in function.parameters}
    for extern, member, dtype in members(command, function):
        fills = []
        for place, argument in enumerate(command.arguments):
            value = _value(argument, given, dtype)
            if value is not None:
                fills.append(f"    arguments[{place}] = {value};")
        start = f"    int64_t *arguments = next({CODES[extern]});"
        end = "    return 0;\n" if function.result not in ("void",) else ""
        body = "\n".join([start, *fills]) if fills else f"    next({CODES[extern]});"
        yield f"{function.result} {member}({parameters})\n{{\n{body}\n{end}}}\n"


def _value(argument: Argument, given: dict[str, str], dtype: str) -> str | None:
    """What a record holds for an argument; None leaves the zero."""
    if argument.name == "type" and dtype:
        return str(DTYPES.index(dtype))
    if argument.name not in given:
        return None
    if argument.kind == ADDRESS:
        return f"(int64_t)(intptr_t){argument.name}"
    if argument.kind == VALUE:
        kind = str(DTYPES.index(dtype)) if dtype else "type"
        return f"bits({argument.name}, {kind})"
    return f"(int64_t){argument.name}"
