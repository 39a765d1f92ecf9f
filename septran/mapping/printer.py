"""Mappings as text: a table for people, and the explicit YAML form that loads again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from septran.machine.loader import machine_names
from septran.machine.model import NONE, Machine
from septran.mapping.extern.name import EXTERN
from septran.mapping.keys import BINDING, CALLS, KEYS, MEMS, PROC, SINGLE, TUNABLES, nested
from septran.mapping.mapping import MappingFile, Match, TaskMapping
from septran.mapping.resolved import Instance, ResolvedMapping, Setting, TensorMemory
from septran.task.trace.tensors import Padded

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*")
# The last four are words in YAML 1.2, which SepTran reads, and flags to readers of YAML 1.1.
_WORDS = ("true", "false", "null", "yes", "no", "on", "off")


def resolved_text(resolved: ResolvedMapping) -> str:
    """Return every task with its instance, each value followed by its reason and line."""
    lines = [f"mapping of {resolved.tree.name} on {resolved.machine.name}"]
    for instance in resolved.instances:
        lines += _instance(instance)
    if resolved.decisions:
        lines.append("decisions")
    for decision in resolved.decisions:
        place = f"  [{decision.where}]" if decision.where else ""
        lines.append(f"  {decision.kind}: {decision.message}{place}")
        if decision.hint:
            lines.append(f"    hint: {decision.hint}")
    return "\n".join(lines)


def _instance(instance: Instance) -> list[str]:
    variant = f" by {instance.variant}" if instance.variant != instance.task else ""
    name = f" as {instance.name}" if instance.name != instance.variant else ""
    lines = [f"{instance.path}{variant}{name}"]
    # Tensors that have one value for one reason are one line.
    named: dict[tuple[str, str, str], list[str]] = {}
    for key, name, setting in instance.rows():
        text = _flow(setting.said) if name else _flow(setting.value)
        if isinstance(setting, TensorMemory) and setting.value == NONE:
            text += f" (in {setting.memory})"
        named.setdefault((key, text, _why(setting)), []).append(name)
    rows = [
        (key, f"{', '.join(names)}: {text}" if all(names) else text, why)
        for (key, text, why), names in named.items()
    ]
    labels = max(14, *(len(key) for key, _, _ in rows))
    width = max(len(text) for _, text, _ in rows)
    last = ""
    for key, text, why in rows:
        label = key if key != last else ""
        lines.append(f"  {label:<{labels}} {text:<{width}}  {why}".rstrip())
        last = key
    return lines


def _why(setting: Setting[Any]) -> str:
    place = f" [{setting.where}]" if setting.where else ""
    return f"{setting.reason}{place}"


def mapping_text(mapping: MappingFile) -> str:
    """Return the content of a mapping, before it is resolved for a logic."""
    lines = [f"mapping for {mapping.machine.name}"]
    for case in mapping.cases:
        when = f", {case.when.text}" if case.when else ""
        lines.append(f"{case.name}{when}: {case.label or 'a table'}  [{case.where}]")
    for plan in mapping.instances.values():
        task = plan.variant.value if plan.variant else "?"
        lines.append(f"instance {plan.name} of {task}  [{plan.where}]")
        lines += _plan(plan)
    for rule in mapping.rules:
        lines.append(f"{rule.plan.name}  [{rule.plan.where}]")
        shown = _conditions(rule.match)
        lines.append(f"  match {_flow(shown)}" if shown else "  match all")
        lines += _plan(rule.plan)
    for name, preference in mapping.tunables.items():
        values = ", ".join(_flow(c.value) for c in preference.cases)
        lines.append(f"tunable {name}: {values}  [{preference.where}]")
    if mapping.dimensions:
        lines.append(f"to be searched: {mapping.space()}")
    return "\n".join(lines)


def _plan(plan: TaskMapping) -> list[str]:
    lines = [f"  {path} {_flow(setting.value)}" for path, setting in plan.settings.items()]
    if plan.manner is not None:
        manner = {k: v for k, v in vars(plan.manner.value).items() if v not in (None, ())}
        lines.append(f"  variant {_flow(manner)}")
    for path, table in plan.tables.items():
        lines.append(f"  {path} {_flow({k: s.said for k, s in table.items()})}")
    for path, lists in plan.options.items():
        for name, options in lists.items():
            lines.append(f"  {path} {name}: {', '.join(s.value for s in options)}")
    for name, preference in plan.tunables.items():
        lines.append(f"  tunable {name}: {', '.join(_flow(c.value) for c in preference.cases)}")
    return lines


def to_yaml(resolved: ResolvedMapping) -> str:
    """Return the explicit form: one instance for each task, with every field written out."""
    names = _unique_names(resolved)
    root = resolved.instances[0]
    lines = [
        f"# {resolved.tree.name} on {resolved.machine.name}, every decision written out.",
        f"machine: {_quoted(_machine_reference(resolved.machine))}",
        f"entrypoint: {names[root.path]}",
        "task_mappings:",
    ]
    written: set[str] = set()
    for task in resolved.tree.tasks():
        instance = resolved.instance(task.path)
        name = names[instance.path]
        if name in written:
            continue
        written.add(name)
        calls = {_call_key(launch.task.path): names[launch.task.path] for launch in task.launches()}
        lines += [f"  {name}:", *_fields(instance, calls)]
    return "\n".join(lines) + "\n"


def _call_key(path: str) -> str:
    return path.rpartition("/")[2]


def _machine_reference(machine: Machine) -> str:
    if machine.name in machine_names() or machine.location is None:
        return machine.name
    return machine.location.file.rpartition("/")[2]


def _fields(instance: Instance, calls: Mapping[str, str]) -> list[str]:
    given: dict[str, Any] = {
        PROC.path: instance.proc.value, MEMS.path: _values(instance.mems),
        TUNABLES.path: _values(instance.tunables), BINDING.path: _bindings(instance),
        CALLS.path: dict(calls),
    }  # fmt: skip
    given |= {path: _values(table) for path, table in instance.settings.tables.items()}
    given |= {key.path: instance.settings.get(key).value for key in SINGLE}
    said = {key: given[key.path] for key in KEYS if given.get(key.path, key.default) != key.default}
    lines = [f"    {key}: {_flow(value)}" for key, value in nested(said).items()]
    return [f"    task_name: {_flow(instance.variant)}", *lines]


def _bindings(instance: Instance) -> Any:
    """Return each primitive's instruction, after the one to prefer where tiles can be padded."""
    better, bound = _values(instance.rounded), _values(instance.bindings)
    if EXTERN in bound:  # a function computes all of the leaf
        return bound[EXTERN]
    return {
        primitive: [better[primitive], name] if primitive in better else name
        for primitive, name in bound.items()
    }


def _values(table: Mapping[str, Setting[Any]]) -> dict[str, Any]:
    return {key: setting.said for key, setting in table.items()}


def _unique_names(resolved: ResolvedMapping) -> dict[str, str]:
    """Return a name for each path; tasks that are mapped alike under one name share it."""
    names: dict[str, str] = {}
    known: dict[str, list[str]] = {}
    contents: dict[str, str] = {}
    # A caller's text has its callees' names in `calls`, so only with these can two be compared.
    for task in reversed(list(resolved.tree.tasks())):  # callees before their callers
        instance = resolved.instance(task.path)
        calls = tuple((_call_key(x.task.path), names[x.task.path]) for x in task.launches())
        content = "\n".join(_fields(instance, dict(calls)))
        base = re.sub(r"\W", "_", instance.name)
        for name in known.setdefault(base, []):
            if contents[name] == content and task.level > 0:
                names[task.path] = name
                break
        else:
            name = base if not known[base] else f"{base}_{len(known[base]) + 1}"
            known[base].append(name)
            contents[name] = content
            names[task.path] = name
    return names


def _conditions(match: Match) -> dict[str, Any]:
    """Return the conditions of a rule, with the file's own keys."""
    shown = {
        k: v
        for k, v in vars(match).items()
        if v not in ((), None, "") or (k == "order" and v is not None)
    }
    if match.below is not None:
        shown["within"] = _conditions(shown.pop("below"))
    if (spreads := shown.pop("spreads", None)) is not None:
        shown["holds"] = "parallel" if spreads else "nothing"
    if match.when is not None:
        shown["when"] = match.when.text
    return shown


def _flow(value: Any) -> str:
    """Return a value in YAML's flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_quoted(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Padded):
        return f"{{value: {int(value)}, multiple: {value.multiple}}}"
    if isinstance(value, Iterable):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return str(value)


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
