"""Malformed mappings: each mistake has its own error, at the marked place, with a way out."""

from __future__ import annotations

from textwrap import dedent

import pytest

from septran.errors import Errors, MappingError, SepTranError
from septran.mapping import mistakes as m
from septran.mapping.loader import load_mapping


def marked(text):
    """The text without its «marks», and the line and column of what they enclose."""
    text = dedent(text).lstrip("\n")
    before = text[: text.index("«")]
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    length = text.index("»") - text.index("«") - 1
    return text.replace("«", "").replace("»", ""), line, column, length


def instance(fields):
    return f"""
    entrypoint: a
    task_mappings:
      a:
        task_name: gemm
        {fields}
    """


def rule(fields):
    return f"""
    rules:
      - {fields}
    """


CASES = {
    # keys
    "unknown top-level key": ("«rulez»: []", m.UnknownKeyError, "rules"),
    "unknown instance key": (instance("«porc»: HOST"), m.UnknownKeyError, "proc"),
    "unknown rule key": (rule("«prok»: HOST"), m.UnknownKeyError, "proc"),
    "unknown match key": (rule("match: {«lvl»: 1}"), m.UnknownKeyError, "level"),
    "unknown case key": (
        rule("tunables: {b: {«wen»: M < 2, value: 1}}"), m.UnknownKeyError, "when",
    ),
    "unknown roles key": (instance("roles: {«consumer»: 2}"), m.UnknownKeyError, "consumers"),
    "unknown pipeline key": (
        instance("pipeline: {stages: 2, «ordr»: [0]}"), m.UnknownKeyError, "order",
    ),
    "upper-case key": (instance("«Mems»: {C: DRAM}"), m.UnknownKeyError, "mems"),
    "calls in a rule": (rule("«calls»: {x: y}"), m.UnknownKeyError, None),
    "case without value": (rule("tunables: {b: «{when: M < 2}»}"), m.MissingKeyError, None),
    "pipeline without stages": (instance("pipeline: «{order: [0]}»"), m.MissingKeyError, None),
    "instance without a task": (
        "task_mappings:\n  «a»: {proc: HOST}", m.MissingKeyError, None,
    ),
    "maps nothing": ("«machine: cpu-x86\n»", m.MissingKeyError, None),
    # names
    "unknown processor": (instance("proc: «HOTS»"), m.UnknownNameError, "HOST"),
    "unknown processor in a rule": (rule("proc: «KORE»"), m.UnknownNameError, "CORE"),
    "unknown memory": (instance("mems: {C: «DRAN»}"), m.UnknownNameError, "DRAM"),
    "lower-case memory": (instance("mems: {C: «dram»}"), m.UnknownNameError, "DRAM"),
    "misspelt NONE": (instance("mems: {C: «NOEN»}"), m.UnknownNameError, "NONE"),
    "misspelt alias": (instance("mems: {C: «GLOBL»}"), m.UnknownNameError, "GLOBAL"),
    "unknown instruction": (rule("binding: «vectr»"), m.UnknownNameError, "vector"),
    "unknown instruction in a list": (
        rule("binding: [vector, «skalar»]"), m.UnknownNameError, "scalar",
    ),
    "unknown leaf binding": (
        instance("leaf_task_bindings: {x: «fma_mikrokernel»}"),
        m.UnknownNameError, "fma_microkernel",
    ),
    "unknown engine": (instance("copy: {A: «load_stor»}"), m.UnknownNameError, "load_store"),
    "unknown machine": ("machine: «cpu-x68»\nrules: []", m.UnknownNameError, "cpu-x86"),
    "machine outside": ("machine: «../evil.yaml»\nrules: []", m.UnknownNameError, None),
    "unknown entry point": (
        "entrypoint: «b»\ntask_mappings:\n  a: {task_name: gemm}", m.UnknownInstanceError, None,
    ),
    "call to a missing instance": (
        instance("calls: {gemm_tile: «aa»}"), m.UnknownInstanceError, "a",
    ),
    # values
    "word for a number": (instance("pipeline: «three»"), m.WrongValueError, None),
    "no stages": (instance("pipeline: «0»"), m.WrongValueError, None),
    "too many stages": (instance("pipeline: «17»"), m.WrongValueError, None),
    "no for a flag": (instance("warpspecialize: «no»"), m.WrongValueError, "true or false"),
    "number for a flag": (instance("persistent: «1»"), m.WrongValueError, None),
    "list for a table": (instance("mems: «[DRAM]»"), m.WrongValueError, None),
    "three memories": (instance("mems: {C: «[NONE, L2, L3]»}"), m.WrongValueError, None),
    "a choice without a memory": (instance("mems: {C: «[NONE, NONE]»}"), m.WrongValueError, None),
    "a choice of an unknown one": (instance("mems: {C: [NONE, «L5»]}"), m.UnknownNameError, None),
    "table for a name": (instance("proc: «{HOST: 1}»"), m.WrongValueError, None),
    "empty value": (instance("«proc»:"), m.WrongValueError, None),
    "empty preference": (instance("tunables: {block_M: «[]»}"), m.WrongValueError, None),
    "unknown layout": (instance("layouts: {A: «Swizzle»}"), m.WrongValueError, None),
    "loops of no kind": (rule("match: {loops: «paralel»}"), m.WrongValueError, "parallel"),
    "leaf of no kind": (rule("match: {leaf: «elementwis»}"), m.WrongValueError, "elementwise"),
    "primitive of no kind": (rule("match: {primitive: «gem»}"), m.WrongValueError, None),
    "dtype of no kind": (rule("match: {dtype: «float31»}"), m.WrongValueError, "float32"),
    "level by a word": (rule("match: {level: «top»}"), m.WrongValueError, None),
    "registers of nobody": (
        instance("roles: {registers: {«writer»: 40}}"), m.WrongValueError, None,
    ),
    "name with a quote": (instance("calls: {«\"a'b\"»: a}"), m.WrongValueError, None),
    "name that ends a comment": (instance('calls: {«"x*/"»: a}'), m.WrongValueError, None),
    "rules as a table": ("rules: «{a: 1}»", m.WrongValueError, None),
    "a mapping that is a list": ("«[1]»\n", m.WrongValueError, None),
    "a mapping that is a word": ("«'just: text'»", m.WrongValueError, None),
    # conditions and rules
    "condition that is none": (
        rule("tunables: {b: {when: «M <», value: 1}}"), m.ConditionError, None,
    ),
    "condition that calls": (
        rule("tunables: {b: {when: «__import__('os')», value: 1}}"), m.ConditionError, "only names",
    ),
    "condition that indexes": (
        rule("tunables: {b: {when: «'M[0]'», value: 1}}"), m.ConditionError, None,
    ),
    "condition with an attribute": (
        rule("tunables: {b: {when: «M.x», value: 1}}"), m.ConditionError, None,
    ),
    "variant by what is computed": (
        rule("{match: {primitive: gemm}, «variant»: x}"), m.LateRuleError, "match by task",
    ),
    "tunables by what is computed": (
        rule("{match: {leaf: elementwise}, «tunables»: {b: 1}}"), m.LateRuleError, None,
    ),
    "tunables by what is computed below": (
        rule("{match: {reaches: gemm}, «tunables»: {b: 1}}"), m.LateRuleError, None,
    ),
    "constraint on nothing": ("rules: [{}]\nconstraints: [«b < 2»]", m.ConditionError, None),
    # !tune
    "tune of no type": (instance("pipeline: «!tune {values: [1]}»"), m.MissingKeyError, None),
    "tune of another type": (
        instance("pipeline: !tune {type: «choise», values: [1]}"), m.WrongValueError, "choice",
    ),
    "choice of nothing": (instance("pipeline: !tune {type: choice, values: «[]»}"),
                          m.WrongValueError, None),
    "choice without values": (instance("pipeline: «!tune {type: choice}»"), m.TuneError, None),
    "range without an end": (
        instance("pipeline: «!tune {type: range, low: 1}»"), m.TuneError, None,
    ),
    "range upside down": (
        instance("pipeline: !tune {type: range, low: 4, high: «2»}"), m.TuneError, None,
    ),
    "a step in a choice": (
        instance("pipeline: !tune {type: choice, values: [1], «step»: 2}"), m.TuneError, None,
    ),
    "a value twice": (
        instance("pipeline: !tune {type: choice, values: [1, «1»]}"), m.TuneError, None,
    ),
    "a wrong value in a choice": (
        instance("proc: !tune {type: choice, values: [HOST, «KORE»]}"), m.UnknownNameError, "CORE",
    ),
    "a range out of bounds": (
        instance("pipeline: !tune {type: range, low: 1, high: «99»}"), m.WrongValueError, None,
    ),
    # YAML
    "key given twice": (
        instance("proc: HOST\n        «proc»: CORE"), m.MappingSyntaxError, None,
    ),
    "anchor": (instance("mems: «&m {»C: DRAM}"), m.MappingSyntaxError, None),
    "alias": (instance("mems: «*m»"), m.MappingSyntaxError, None),
    "another tag": (instance("proc: «!!python/name:os.system x»"), m.MappingSyntaxError, "!tune"),
    "tab": ("rules:\n«\t»- {}", m.MappingSyntaxError, "spaces"),
    "unquoted star": ("rules:\n  - mems: {*«:» DRAM}", m.MappingSyntaxError, "quote"),
    "open bracket": ("rules: [{}\n«»", m.MappingSyntaxError, "bracket"),
    "second document": ("rules: []\n«---\n»rules: []", m.MappingSyntaxError, None),
    "list as a key": ("«[»a]: 1", m.MappingSyntaxError, None),
    "number beyond 64 bits": (
        instance("pipeline: «99999999999999999999»"), m.MappingSyntaxError, None,
    ),
    # extends
    "extends a number": ("extends: «3»", m.ExtendsError, None),
    "extends nothing": ("extends: «nothing.mapping.yaml»", m.ExtendsError, None),
    "extends outside": ("extends: «../x.yaml»", m.ExtendsError, "same folder"),
    "extends the root": ("extends: «/etc/passwd»", m.ExtendsError, "same folder"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_found_where_it_is(name):
    source, kind, hint = CASES[name]
    text, line, column, length = marked(source)
    with pytest.raises(MappingError) as caught:
        load_mapping(text)
    error = caught.value
    assert type(error) is kind, str(error)
    assert error.where is not None
    assert (error.where.line, error.where.column) == (line, column), str(error)
    if "\n" not in source[source.index("«") : source.index("»")]:
        assert error.where.length == max(1, length), str(error)
    if hint is not None:
        assert hint in str(error.hint)
    if error.where.text:
        assert f"{error.where.text}\n" in str(error)
        assert "^" in str(error)


def test_there_are_many_cases():
    assert len(CASES) >= 60


def test_all_mistakes_of_a_file_are_reported_at_once_in_their_order():
    text = dedent("""
        entrypoint: a
        task_mappings:
          a:
            task_name: gemm
            proc: HOTS
            mems: {C: DRAN, A: DRAM}
            piepline: 3
            warpspecialize: yes
        """)
    with pytest.raises(Errors) as caught:
        load_mapping(text)
    found = [(type(e), e.where.line) for e in caught.value.errors]
    assert found == [
        (m.UnknownNameError, 6),
        (m.UnknownNameError, 7),
        (m.UnknownKeyError, 8),
        (m.WrongValueError, 9),
    ]
    assert str(caught.value).endswith("4 mistakes.")


def test_an_error_reads_well(golden, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "wrong.mapping.yaml"
    path.write_text(dedent(instance("mems: {C: SHRED, A: [DRAM], B: NONE}\n        pipline: 3")))
    with pytest.raises(SepTranError) as caught:
        load_mapping(path)
    golden.check(str(caught.value), "errors")


def test_names_of_the_right_kind_only(tmp_path):
    text, line, column, _ = marked(instance("mems: {C: «CORE»}"))
    with pytest.raises(m.UnknownNameError, match="unknown memory 'CORE'") as caught:
        load_mapping(text)
    assert (caught.value.where.line, caught.value.where.column) == (line, column)


def test_what_cannot_be_found_is_named():
    with pytest.raises(m.NoMappingError, match="no mapping 'cpu-x68'") as caught:
        load_mapping("cpu-x68")
    assert "cpu-x86" in str(caught.value.hint)
    with pytest.raises(m.NoMappingError, match="cannot read"):
        load_mapping("no/such/file.yaml")


def test_every_class_has_a_code_of_its_own():
    classes = [c for c in vars(m).values() if isinstance(c, type) and issubclass(c, MappingError)]
    codes = [c.code for c in classes]
    assert len(set(codes)) == len(codes)
    assert all(code.startswith("SEP3") for code in codes)
