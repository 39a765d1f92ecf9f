"""Every copy and wait leads to the lines it came from and to those it became, and back."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

import septran
from septran.tile.nodes import Acquire, Barrier, Commit, Copy, For, Release, Role, Wait, nodes
from septran.views.links import linked, linked_data
from septran.views.links.notes import notes_of

OPERATORS = ("gemm", "softmax", "attention", "conv2d")
MACHINES = ("cpu-x86", "dsa-sim")
MOVES = Copy | Wait | Acquire | Commit | Release | Barrier
EACH = [(operator, machine) for operator in OPERATORS for machine in MACHINES]


@pytest.fixture(autouse=True, scope="module")
def _code_of_one_width():
    """So that as much is said of a CPU's code on every host."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEPTRAN_NATIVE", "avx2")
        yield


@cache
def explained(operator, machine):
    explanation = septran.explain(operator, machine)
    return explanation, linked(explanation)


def node_lines(operator, machine):
    """Each node of the tile program with its number and the number of its line."""
    explanation, panes = explained(operator, machine)
    document = panes.pane("tile_program").documents[0]
    lines = {key: n for n, keys in document.lines.items() for key in keys if key[:5] == "node:"}
    for number, node in enumerate(nodes(explanation.tile_program.body)):
        yield node, number, lines[f"node:{number}"]


def lit(panes, keys):
    """Lines by pane and by the title of a document."""
    return {(pane, title, line) for pane, title, line in panes.find(keys)}


def all_keys(document):
    """By line, the keys of the line and of its words."""
    found = {line: set(keys) for line, keys in document.lines.items()}
    for word in document.words:
        found.setdefault(word.line, set()).update(word.keys)
    return {line: frozenset(keys) for line, keys in found.items()}


def title_of(panes, pane, file):
    return next(d.title for d in panes.pane(pane).documents if d.file == file)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("operator", "machine"), EACH)
def test_every_node_stands_in_the_line_that_carries_its_number(operator, machine):
    from septran.tile.printer import node_text

    explanation, panes = explained(operator, machine)
    rows = panes.pane("tile_program").documents[0].text.splitlines()
    sizes = dict(row.strip()[5:].split(" = ") for row in rows if row.strip().startswith("size "))
    for node, _, line in node_lines(operator, machine):
        whole = re.sub(r"\w+", lambda name: sizes.get(name[0], name[0]), rows[line - 1].strip())
        assert whole == node_text(node, explanation.tile_program)


@pytest.mark.parametrize(("operator", "machine"), EACH)
def test_moves_and_computations_lead_to_every_pane_and_back(operator, machine):
    _, panes = explained(operator, machine)
    program = panes.pane("tile_program").documents[0]
    reach = cache(lambda keys: lit(panes, keys))  # many lines carry the same keys
    carried = {(p.name, d.title): all_keys(d) for p in panes.panes for d in p.documents}
    checked = 0
    for node, _, line in node_lines(operator, machine):
        if isinstance(node, For | Role):
            continue
        found = reach(program.keys(line))
        logic, mapping = node.origin.logic, node.origin.mapping
        if logic is not None:
            assert ("logic", title_of(panes, "logic", logic.file), logic.line) in found
        if mapping is not None:
            assert ("mapping", title_of(panes, "mapping", mapping.file), mapping.line) in found
        reached = {pane for pane, _, _ in found}
        assert {"logic", "task_tree", "mapping", "tensor_ir", "source"} <= reached, str(node)
        for pane, title, other in found:  # and from each of them back
            assert ("tile_program", "program", line) in reach(carried[pane, title][other])
        checked += isinstance(node, MOVES)
    assert checked or (operator, machine) == ("softmax", "cpu-x86")  # which moves nothing


@pytest.mark.parametrize(("operator", "machine"), EACH)
@pytest.mark.parametrize("pane", ["tensor_ir", "source"])
def test_generated_lines_carry_what_their_own_note_says(operator, machine, pane):
    explanation, panes = explained(operator, machine)
    document = panes.pane(pane).documents[0]
    by_text = {}
    for node in nodes(explanation.tile_program.body):
        by_text.setdefault(str(node.origin).replace('"', "'"), node)
    matched = 0
    for note in notes_of(document.text):
        node = by_text.get(note.text)
        if node is None:
            continue
        matched += 1
        own = {f"why:{panes.whys.index(node.origin)}"}
        for line in note.covered:
            assert own <= document.keys(line)
            whys = {key for key in document.keys(line) if key.startswith("why:")}
            assert all(str(panes.whys[int(k[4:])]) == str(node.origin) for k in whys)
    assert matched > 1 or (operator, machine) == ("softmax", "cpu-x86")  # one note for all of it


@pytest.mark.parametrize(("operator", "machine"), EACH)
def test_almost_no_generated_line_is_without_an_origin(operator, machine):
    _, panes = explained(operator, machine)
    for pane in ("tensor_ir", "source"):
        document = panes.pane(pane).documents[0]
        rows = document.text.splitlines()
        bare = [r for n, r in enumerate(rows, 1) if not document.keys(n) and r.strip(" {}")]
        # Indices of loops that have become one belong to no loop alone.
        bare = [r for r in bare if "T.truncmod(unit, " not in r and "T.Div(unit, " not in r]
        assert len(bare) <= 13, bare  # includes, the head of the function


def test_what_lights_up_is_every_line_that_shares_a_key():
    _, panes = explained("gemm", "dsa-sim")
    each = [(p.name, d.title, all_keys(d)) for p in panes.panes for d in p.documents]
    for keys in set(all_keys(panes.pane("logic").documents[0]).values()):
        expected = [
            (pane, title, n)
            for pane, title, lines in each
            for n in sorted(lines)
            if lines[n] & keys
        ]
        assert list(panes.find(keys)) == expected


def test_two_copies_of_one_origin_are_told_apart():
    """The copies before a pipelined loop and in it have one reason, but lines of their own."""
    _, panes = explained("gemm", "dsa-sim")
    program, source = (panes.pane(name).documents[0] for name in ("tile_program", "source"))
    rows, code = program.text.splitlines(), source.text.splitlines()
    copies = [n for n, row in enumerate(rows, 1) if "= copy(A[" in row]
    own = [{k for k in program.keys(n) if k.startswith("node:")} for n in copies]
    lines = [[n for n in source.lines if source.keys(n) & keys] for keys in own]
    calls = [[code[n - 1] for n in found if "dma_copy" in code[n - 1]] for found in lines]
    assert [len(found) for found in calls] == [1, 1]
    assert "A + i * 65536," in calls[0][0]
    assert "k * 128 + 128" in calls[1][0]


def test_a_tensor_is_the_same_in_every_pane():
    _, panes = explained("gemm", "dsa-sim")
    found = lit(panes, frozenset({"buffer:A_SPM"}))
    assert {pane for pane, _, _ in found} == {
        "logic", "task_tree", "mapping", "tile_program", "tensor_ir", "source"
    }  # fmt: skip
    document = panes.pane("logic").documents[0]
    rows = document.text.splitlines()
    words = [w for w in document.words if "buffer:A_SPM" in w.keys]
    assert {rows[w.line - 1][w.start : w.start + w.length] for w in words} == {"A"}
    tile = next(n for n, row in enumerate(rows, 1) if row.startswith("def gemm_tile"))
    assert {w.line for w in words} == {tile, tile + 2}


def test_a_mapping_word_is_the_value_that_decided():
    _, panes = explained("gemm", "dsa-sim")
    document = panes.pane("mapping").documents[0]
    rows = document.text.splitlines()
    words = [w for w in document.words if "buffer:A_SPM" in w.keys]
    assert [rows[w.line - 1][w.start : w.start + w.length] for w in words] == ["SPM"]
    assert "primitive: gemm" in rows[words[0].line - 2]


@pytest.mark.parametrize(("operator", "machine"), EACH)
def test_loops_of_generated_code_are_those_of_the_program(operator, machine):
    _, panes = explained(operator, machine)
    source = panes.pane("tensor_ir").documents[0]
    loops = {number: node for node, number, _ in node_lines(operator, machine)}
    for line, row in enumerate(source.text.splitlines(), 1):
        numbers = [int(k[5:]) for k in source.keys(line) if k.startswith("node:")]
        named = [loops[n] for n in numbers if isinstance(loops[n], For)]
        if named and " in range(" in row:
            assert row.split()[1].rstrip("0123456789_") == named[0].variable.name.rstrip(
                "0123456789_"
            )


def test_passes_give_the_program_and_say_what_they_changed():
    explanation, panes = explained("gemm", "dsa-sim")
    before: list[str] = []
    for step, given in zip(panes.steps, explanation.passes, strict=True):
        kept = [text for sign, text, _ in step.rows if sign in " -"]
        assert kept == before
        before = [text for sign, text, _ in step.rows if sign in " +"]
        assert "\n".join(before) + "\n" == str(given.program)
    changed = {step.name for step in panes.steps if step.added or step.removed}
    assert {"instantiate", "pipeline_loops", "insert_sync", "plan_memory"} <= changed


@pytest.mark.parametrize("machine", MACHINES)
def test_the_data_of_attention_is_small_and_complete(machine):
    _, panes = explained("attention", machine)
    data = linked_data(panes)
    assert len(json.dumps(data, separators=(",", ":"))) < 400_000
    assert data == json.loads(json.dumps(data))
    for pane, given in zip(panes.panes, data["panes"], strict=True):
        for document, sent in zip(pane.documents, given["documents"], strict=True):
            pairs = zip(sent["lines"][::2], sent["lines"][1::2], strict=True)
            names = {n: {data["keys"][k] for k in data["sets"][number]} for n, number in pairs}
            assert names == {n: set(keys) for n, keys in document.lines.items()}


CUDA = """\
  // copy A: A is GLOBAL [a.py:3, m.yaml:2:5]
  int at = k;
  cp_async(at);
  // role consumer: it computes [a.py:2, m.yaml:1:1]
  if (tid >= 128) {
    int thread = tid - 128;
    for (int k = 0; k < 8; ++k) {
      // wait: A arrives [a.py:3, m.yaml:4:5]
      wait(k);
      if (k > 0) {
        // release: done [a.py:3, m.yaml:4:5]
        release(k);
      }
    }
    last();
  }
  // copy C: out [a.py:9, m.yaml:2:5]
  for (int r = 0; r < 2; ++r) {
    store(r);
  }
  for (int k = 0; k < 8; ++k) {
    // wait: again [a.py:3, m.yaml:4:5]
    wait(k);
  }
"""


def test_notes_reach_as_far_as_their_statements():
    lines = CUDA.splitlines()
    said = {note.text.split(":")[0]: note for note in notes_of(CUDA)}
    told = {
        name: [lines[n - 1].strip() for n in note.covered[1:]]
        for name, note in said.items()
        if name != "wait"
    }
    assert told == {
        "copy A": ["int at = k;", "cp_async(at);"],
        "role consumer": ["if (tid >= 128) {", "int thread = tid - 128;",
                          "for (int k = 0; k < 8; ++k) {", "if (k > 0) {", "last();"],
        "release": ["release(k);"],
        "copy C": ["for (int r = 0; r < 2; ++r) {", "store(r);"],
    }  # fmt: skip


def test_a_note_for_the_rest_of_its_block_goes_on_after_a_deeper_one():
    text = (
        'for i in T.parallel(2):\n    T.attr({"origin": "outer [a.py:1]"})\n    a = 1\n'
        '    with T.attr({"origin": "inner [a.py:2]"}):\n        b = 2\n    c = 3\nd = 4\n'
    )
    assert [(note.text[:5], note.covered) for note in notes_of(text)] == [
        ("outer", (2, 3, 6)), ("inner", (4, 5))
    ]  # fmt: skip


def test_source_is_not_called_by_a_language_that_it_is_not_in():
    titles = [d.title for d in explained("gemm", "cpu-x86")[1].pane("source").documents]
    assert titles == ["TensorIR for llvm", "assembly"]
    assert explained("gemm", "dsa-sim")[1].pane("source").documents[0].title == "c"
