"""The schema of a mapping file, key by key: the source of its checks and its JSON Schema."""

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
from septran.mapping.structure.products import AXES
from septran.mapping.tune import tune_schema

LEAF_KINDS = ("elementwise", "gemm", "fill", "copy")

_PATTERN = Text(r"[A-Za-z_*][A-Za-z0-9_*]{0,63}", "a name, perhaps with *")
_ORDER = ListOf(Choice(AXES), least=0)
_OPERANDS = many(Choice(("left", "right", "none")))

INSTANCE = Record(
    {
        "task_name": Field(TASK, "the task or variant that it maps"),
        **fields(instances=True),
    },
    "an instance",
)
_MATCH: dict[str, Field] = {
    "task": Field(many(_PATTERN), "the launched task's name, perhaps with *"),
    "variant": Field(many(_PATTERN), "the function that was traced for it"),
    "primitive": Field(many(PRIMITIVE), "a leaf that uses it; map: a tensor expression"),
    "level": Field(
        many(Either((Whole(least=0, most=64), Choice(("entry",))))),
        "launches between the entry and it",
    ),
    "loops": Field(Choice(("parallel", "sequential")), "the loop that it is launched from, if any"),
    "leaf": Field(
        Either((Flag(), many(Choice(LEAF_KINDS)))), "whether it is a leaf, or of which kind"
    ),
    "holds": Field(Choice(("parallel", "nothing")), "whether a loop of its own body is parallel"),
    "reaches": Field(many(PRIMITIVE), "it or a task below it uses one of these primitives"),
    "dtype": Field(many(Choice(ALL)), "the commonest element type of its tensors"),
    "any_dtype": Field(many(Choice(ALL)), "the element type of any of its tensors"),
    "machine_feature": Field(many(WORD), "a part that the machine must have, or `asynchronous`"),
    "converts": Field(
        Flag(), "whether the fastest instruction for products of its type widens each element first"
    ),
    "products": Field(
        many(Whole(least=0, most=64)), "so many products it and what it launches compute"
    ),
    "order": Field(_ORDER, "what the loops around its first product walk, outermost first"),
    "between_products": Field(
        Choice(("reduction", "elements", "nothing")),
        "what makes an operand of an earlier product's result: a reduction, as in attention, or "
        "expressions of its elements",
    ),
    "masked": Field(Flag(), "whether elements of a product are changed by where they lie"),
    "carried": Field(
        Flag(), "whether a product takes sums of an earlier iteration, as a state is one"
    ),
    "reduces": Field(Flag(), "whether something else than a product is reduced"),
    "scans": Field(Flag(), "whether elements are summed up, or joined otherwise, along an axis"),
    "scatters": Field(Flag(), "whether data chooses where something is written"),
    "turns": Field(Flag(), "whether something is made from what lies across it, as a transpose"),
    "shared_right": Field(Flag(), "whether its first and its last product have one right operand"),
    "window": Field(_OPERANDS, "the operand of a product that is read through a window, or none"),
    "computed": Field(
        _OPERANDS, "the operands that are computed beforehand, as unpacked weights are, or none"
    ),
    "transposed": Field(_OPERANDS, "the operands that lie in memory as their transpose, or none"),
    "when": Field(Formula(), "a condition over dimensions, flags, extents, structure, dtype"),
}
_WITHIN = "a task that launches it, directly or through others, by name or by a match of its own"
MATCH = Record(
    {
        **_MATCH,
        "within": Field(Either((many(_PATTERN), Record(_MATCH, "a match"))), _WITHIN),
    },
    "match",
)
_MANNER = Record(
    {
        "order": Field(_ORDER, "what its loops walk, outermost first"),
        "sums_apart": Field(Flag(), "whether steps along the sum have sums of their own"),
        "multiplies": Field(many(Choice(ALL)), "the element type of what it multiplies"),
        "computed": Field(_OPERANDS, "the operands that are computed beforehand"),
    },
    "a variant by how it computes",
)
RULE = Record(
    {
        "match": Field(MATCH, "which task instances it is for; all where missing"),
        "variant": Field(
            Either((TASK, _MANNER)), "the variant that becomes of the launched task, or how it goes"
        ),
        **fields(instances=False),
    },
    "a rule",
)
MACHINE = Field(
    Text(rf"{MACHINE_NAME.pattern}", "a machine's name, or its file beside the mapping"),
    "the machine that it is for",
)
MAPPED_FILE = Text(
    r"(\./)?[A-Za-z0-9_][A-Za-z0-9_ ./+-]{0,199}", "a mapping's file beside this one"
)
MAPPING = Record(
    {
        "machine": MACHINE,
        "extends": Field(MAPPED_FILE, "a mapping that this one changes"),
        "description": Field(FREE, "a sentence for readers"),
        "entrypoint": Field(NAME, "the instance of the logic's entry task"),
        "task_mappings": Field(TableOf(NAME, INSTANCE), "instances by name (explicit form)"),
        "rules": Field(ListOf(RULE, most=512), "rules, tried in order (rule form)"),
        "tunables": Field(TUNABLES.kind, "values for the tunables of every task"),
        "conditions": Field(TableOf(NAME, Formula()), "conditions that others may name"),
        "constraints": Field(ListOf(Formula()), "conditions on the values of !tune"),
    },
    "a mapping",
)


def mapping_schema() -> Schema:
    """Return the JSON Schema of mapping files (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "SepTran mapping",
        "description": "How logic runs on a machine. Any value may be !tune.",
        **_searchable(MAPPING.schema()),
        "$defs": {"tune": tune_schema()},
    }


def _searchable(schema: Schema) -> Schema:
    """A schema that allows `!tune` for every value: editors see its table without the tag."""
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
