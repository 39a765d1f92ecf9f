"""The last two stages as HTML: TensorIR and the generated source, coloured."""

from __future__ import annotations

from septran.targets.base import Source, TensorIR
from septran.views.pictures.html import Markup, code, details, join, paragraph, table

LANGUAGES = {"llvm": "llvm", "asm": "gas", "cuda": "cuda", "hip": "cuda", "opencl": "c", "c": "c"}
"""Pygments' name of each language a target may generate."""


def tensor_ir_panel(ir: TensorIR) -> Markup:
    """TVMScript is Python."""
    text = str(ir)
    return join([paragraph(f"{ir.name}: {_lines(text)} of TVMScript"), code(text, "python")])


def source_panel(source: Source) -> Markup:
    """The main text open, further parts and figures folded."""
    parts = [paragraph(f"{source.name}: {_lines(source.text)} of {source.language}")]
    if source.facts:
        parts.append(table(("figure", "value"), list(source.facts.items())))
    parts.append(code(source.text, _language(source.language, source.text)))
    for title, text in source.parts.items():
        language = "asm" if "assembly" in title.lower() else title
        parts.append(details(f"{title} ({_lines(text)})", code(text, _language(language, text))))
    return join(parts)


def _language(declared: str, text: str) -> str:
    # Targets whose code generator takes TensorIR show it, annotated, as their source.
    return "python" if text.startswith("# from tvm.") else LANGUAGES.get(declared, "")


def _lines(text: str) -> str:
    count = text.count("\n") + 1
    return f"{count:,} line{'s' if count != 1 else ''}"
