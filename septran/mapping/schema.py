"""What a mapping file holds, key by key: the source of its checks and its JSON Schema."""

from __future__ import annotations

from septran.dtypes import ALL
from septran.machine.kinds import (
    FREE,
    NAME,
    Choice,
    Either,
    Field,
    Flag,
    ListOf,
    Record,
    Schema,
    TableOf,
    Text,
    Whole,
    many,
)
from septran.machine.schema import MACHINE_NAME
from septran.mapping.conditions import Formula
from septran.mapping.keys import PRIMITIVE, TASK, TUNABLES, WORD, fields
from septran.mapping.tune import tune_schema

LEAF_KINDS = ("elementwise", "gemm", "fill", "copy")

_PATTERN = Text(r"[A-Za-z_*][A-Za-z0-9_*]{0,63}", "a name, perhaps with *")

INSTANCE = Record(
    {
        "task_name": Field(TASK, "the task or variant that it maps"),
        **fields(instances=True),
    },
    "an instance",
)
MATCH = Record(
    {
        "task": Field(many(_PATTERN), "the launched task's name, perhaps with *"),
        "variant": Field(many(_PATTERN), "the function that was traced for it"),
        "within": Field(many(_PATTERN), "a task that launches it, directly or through others"),
        "primitive": Field(many(PRIMITIVE), "a leaf that uses it; map: a tensor expression"),
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
        "reaches": Field(many(PRIMITIVE), "it or a task below it uses one of these primitives"),
        "dtype": Field(many(Choice(ALL)), "the commonest element type of its tensors"),
        "machine_feature": Field(
            many(WORD), "a part that the machine must have, or `asynchronous`"
        ),
        "when": Field(Formula(), "a condition over dimensions, flags, extents and dtype"),
    },
    "match",
)
RULE = Record(
    {
        "match": Field(MATCH, "which task instances it is for; all where missing"),
        "variant": Field(TASK, "the variant that becomes of the launched task"),
        **fields(instances=False),
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
        "tunables": Field(TUNABLES.kind, "values for the tunables of every task"),
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
