"""From an explanation to linked panes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from septran.targets.base import Source, TensorIR
from septran.views.links.code import code_document, further_documents
from septran.views.links.logic import logic_documents
from septran.views.links.mapping import mapping_documents
from septran.views.links.model import Linked, Pane
from septran.views.links.origins import Origins, about
from septran.views.links.program import pass_steps, program_document
from septran.views.links.tree import tree_document, tree_graph

if TYPE_CHECKING:
    from septran.views.explanation import Explanation


def linked(explanation: Explanation, *, late: bool = True) -> Linked:
    """Every stage as a pane; lines and words of one origin share a key.

    Without `late` no code is generated: the last two panes stay empty.
    """
    steps = explanation.passes
    program = explanation.tile_program
    origins = Origins.of(explanation.task_tree, [*(s.program for s in steps), program])
    resolved = explanation.mapping
    panes = (
        Pane("logic", "Logic", logic_documents(origins)),
        Pane(
            "task_tree",
            "Task tree",
            (tree_document(origins),),
            graph=tree_graph(origins),
            shown=False,
        ),
        Pane("mapping", "Mapping", mapping_documents(resolved, origins)),
        Pane("tile_program", "Tile program", (program_document(program, origins),)),
        _code_pane("tensor_ir", "TensorIR", explanation.tensor_ir if late else "", origins),
        _code_pane("source", "Source", explanation.source if late else "", origins),
    )
    title = f"{explanation.name} on {resolved.machine.name}"
    return Linked(title, panes, origins.whys, about(origins), pass_steps(steps, origins))


def _code_pane(name: str, title: str, stage: Any, origins: Origins) -> Pane:
    if not isinstance(stage, TensorIR | Source):
        return Pane(name, title, (), note=str(stage) or "being made", shown=name == "source")
    documents = [code_document(stage, origins)]
    if isinstance(stage, Source):
        documents += further_documents(stage)
    # TensorIR has a pane of its own: of a target that takes it, the assembly is what is new.
    twice = name == "source" and documents[0].language == "python"
    opened = next((d.title for d in documents if twice and d.language == "asm"), "")
    return Pane(name, title, tuple(documents), shown=name == "source", opened=opened)
