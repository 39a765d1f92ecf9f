"""What a mapping file holds, key by key: the source of its checks and its JSON Schema."""

from __future__ import annotations

from dataclasses import dataclass

from septran.dtypes import ALL
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
    Report,
    Schema,
    TableOf,
    Text,
    Whole,
    check,
    many,
)
from septran.machine.model import NONE
from septran.machine.positions import Node
from septran.machine.schema import LAYOUT, MACHINE_NAME
from septran.mapping.conditions import Formula
from septran.mapping.tune import tune_schema
from septran.task.primitives import PRIMITIVES


@dataclass(frozen=True)
class Optionally:
    """``[NONE, L2]``: where it is, if a copy takes longer than it saves, else in L2."""

    kind: Kind

    @property
    def expected(self) -> str:
        """In words, for messages."""
        return f"[{NONE}, {self.kind.expected}]"

    def accepts(self, node: Node) -> bool:
        """Whether it is a list."""
        return isinstance(node.value, tuple)

    def check(self, node: Node, report: Report) -> None:
        """Report any other list."""
        places = [element.text for element in node.elements]
        if len(places) == 2 and places[0] == NONE != places[1]:
            check(self.kind, node.elements[1], report)
        else:
            message = f"a list of memories is [{NONE}, MEMORY]: not copied where that takes longer"
            report.wrong(message, node.where)

    def schema(self) -> Schema:
        """Its JSON Schema."""
        places = [{"const": NONE}, self.kind.schema()]
        return {"type": "array", "prefixItems": places, "minItems": 2, "maxItems": 2}


OPERANDS = tuple(f"gemm.{operand}" for operand in PRIMITIVES["gemm"].operands)
GROUPS = ("*", "accumulators", "temporaries", "reads", "writes", *OPERANDS)
"""What `mems` may name besides tensors; `gemm.A` is what a leaf passes to gemm as A."""
LEAF_KINDS = ("elementwise", "gemm", "fill", "copy")

_TENSOR = Text(rf"\*|gemm\.[ABC]|{IDENTIFIER}", 'a tensor, a group of tensors, or "*"')
_TUNABLE = Text(r"[A-Za-z_*][A-Za-z0-9_*]{0,63}", "a tunable's name, perhaps with *")
_TASK = Text(IDENTIFIER, "a task's name")
_LAUNCHED = Text(rf"{IDENTIFIER}(#[1-9][0-9]{{0,3}})?", "a launched task's name")
_PATTERN = Text(r"[A-Za-z_*][A-Za-z0-9_*]{0,63}", "a name, perhaps with *")
_WORD = Text(r"[A-Za-z0-9_.+-]{1,64}", "a word")
_VALUE: Kind = Either((Whole(least=0), Flag(), Number(positive=False), _WORD))
_CASE = Record(
    {
        "when": Field(Formula(), "condition over dimensions, shapes and dtype"),
        "value": Field(_VALUE, "the value where it holds", required=True),
        "multiple": Field(Whole(most=1024), "a smaller dimension's tile is rounded up to"),
    },
    "a case",
)
TUNABLES = TableOf(_TUNABLE, Either((_VALUE, _CASE, ListOf(Either((_VALUE, _CASE)), least=1))))
_INSTRUCTIONS = many(Named("instruction"))
_PRIMITIVE = Text(r"gemm|map|fill|copy", "a primitive: gemm, map, fill, copy")

SETTINGS = {
    "proc": Field(Named("processor"), "processor level that runs it"),
    "mems": Field(
        TableOf(_TENSOR, Either((Named("memory", extra=(NONE,)), Optionally(Named("memory"))))),
        "memory of each tensor or group of tensors; NONE: not materialised here; [NONE, L2]: "
        "in L2 unless a copy takes longer than it saves",
    ),
    "tunables": Field(TUNABLES, "values for the logic's tunables"),
    "binding": Field(
        Either((_INSTRUCTIONS, TableOf(_PRIMITIVE, _INSTRUCTIONS))),
        "instruction of a leaf, best first; or one list for each primitive",
    ),
    "pipeline": Field(
        Either(
            (
                Whole(most=16),
                Record(
                    {
                        "stages": Field(Whole(most=16), "stages", required=True),
                        "order": Field(ListOf(Whole(least=0, most=64)), "order of the statements"),
                    },
                    "pipeline",
                ),
            )
        ),
        "stages of the loop that feeds asynchronous copies",
    ),
    "warpspecialize": Field(Flag(), "producer and consumer roles"),
    "roles": Field(
        Record(
            {
                "consumers": Field(Whole(most=8), "how many consumers"),
                "registers": Field(
                    TableOf(Text("producer|consumer", "producer or consumer"), Whole(24, 256)),
                    "registers a thread of each role",
                ),
            },
            "roles",
        ),
        "producer and consumer roles in detail",
    ),
    "layouts": Field(TableOf(NAME, LAYOUT), "layout of a tensor's buffer"),
    "copy": Field(TableOf(NAME, Named("engine")), "engine of a tensor's copies"),
    "order": Field(ListOf(_WORD, least=1), "order of parallel iterations: loop indices"),
    "persistent": Field(Flag(), "as many units as fit walk over the tiles"),
    "cluster": Field(Either((Whole(most=16), ListOf(Whole(most=16), 1, 3))), "blocks a cluster"),
    "raster": Field(Either((Whole(most=1024), _WORD)), "order of tiles over the grid"),
    "overlap": Field(Flag(), "products of neighbouring iterations run beside each other"),
    "turns": Field(Flag(), "consumers whose products overlap take turns in issuing them"),
}
"""What an instance and a rule have in common."""

INSTANCE = Record(
    {
        "task_name": Field(_TASK, "the task or variant that it maps"),
        **SETTINGS,
        "calls": Field(TableOf(_LAUNCHED, NAME), "which instance each launched task becomes"),
        "leaf_task_bindings": Field(
            TableOf(_LAUNCHED, _INSTRUCTIONS), "instruction of each launched leaf, best first"
        ),
    },
    "an instance",
)
MATCH = Record(
    {
        "task": Field(many(_PATTERN), "the launched task's name, perhaps with *"),
        "variant": Field(many(_PATTERN), "the function that was traced for it"),
        "within": Field(many(_PATTERN), "a task that launches it, directly or through others"),
        "primitive": Field(many(_PRIMITIVE), "a leaf that uses it; map: a tensor expression"),
        "level": Field(
            many(Either((Whole(least=0, most=64), Choice(("entry",))))),
            "launches between the entry and it",
        ),
        "loops": Field(
            Choice(("parallel", "sequential")), "the loop that it is launched from, if any"
        ),
        "leaf": Field(
            Either((Flag(), many(Choice(LEAF_KINDS)))), "whether it is a leaf, or of which kind"
        ),
        "holds": Field(
            Choice(("parallel", "nothing")), "whether a loop of its own body is parallel"
        ),
        "reaches": Field(many(_PRIMITIVE), "it or a task below it uses one of these primitives"),
        "dtype": Field(many(Choice(ALL)), "the commonest element type of its tensors"),
        "machine_feature": Field(
            many(_WORD), "a part that the machine must have, or `asynchronous`"
        ),
        "when": Field(Formula(), "a condition over dimensions, flags, extents and dtype"),
    },
    "match",
)
RULE = Record(
    {
        "match": Field(MATCH, "which task instances it is for; all where missing"),
        "variant": Field(_TASK, "the variant that becomes of the launched task"),
        **SETTINGS,
    },
    "a rule",
)
MAPPING = Record(
    {
        "machine": Field(
            Text(rf"{MACHINE_NAME.pattern}", "a machine's name, or its file beside the mapping"),
            "the machine that it is for",
        ),
        "extends": Field(
            Text(r"(\./)?[A-Za-z0-9_][A-Za-z0-9_ ./+-]{0,199}", "a mapping's file beside this one"),
            "a mapping that this one changes",
        ),
        "description": Field(FREE, "a sentence for readers"),
        "entrypoint": Field(NAME, "the instance of the logic's entry task"),
        "task_mappings": Field(TableOf(NAME, INSTANCE), "instances by name (explicit form)"),
        "rules": Field(ListOf(RULE, most=512), "rules, tried in order (rule form)"),
        "tunables": Field(TUNABLES, "values for the tunables of every task"),
        "constraints": Field(ListOf(Formula()), "conditions on the values of !tune"),
    },
    "a mapping",
)


def mapping_schema() -> Schema:
    """The JSON Schema of mapping files (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "SepTran mapping",
        "description": "How logic runs on a machine. Any value may be !tune.",
        **_searchable(MAPPING.schema()),
        "$defs": {"tune": tune_schema()},
    }


def _searchable(schema: Schema) -> Schema:
    """Allow `!tune` in place of every value: editors show its table without the tag."""
    changed = dict(schema)
    for key in ("properties", "patternProperties"):
        if key in schema:
            changed[key] = {name: _or_tune(value) for name, value in schema[key].items()}
    if "items" in schema:
        changed["items"] = _or_tune(schema["items"])
    if "anyOf" in schema:
        changed["anyOf"] = [_searchable(option) for option in schema["anyOf"]]
    return changed


def _or_tune(schema: Schema) -> Schema:
    inner = _searchable(schema)
    words = {"description": inner.pop("description")} if "description" in inner else {}
    return {**words, "anyOf": [inner, {"$ref": "#/$defs/tune"}]}
