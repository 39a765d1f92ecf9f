"""Make the documentation site: ``python docs/site/build.py OUT`` (``septran[docs]``).

Its pages are the manual, the tutorials with the outputs that are stored in them, the docstrings of
the public names, and lists made from the tables that the compiler itself reads.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.cmd.build import build_main
from typer.main import get_command

import septran
from septran.cli import app
from septran.machine.schema import machine_schema
from septran.mapping.dispatch.reading import dispatch_schema
from septran.mapping.schema import mapping_schema
from septran.operators import load, names
from septran.simulator.commands import COMMANDS as VENDOR

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MANUAL = (
    "language", "semantics", "mapping", "torch", "export", "extern", "dsa", "nvidia", "amd",
    "opencl", "tpu", "tilelang", "ascend",
    "emulator", "cluster", "architecture", "errors", "tutorials",
    "operators", "command_line", "editors",
)  # fmt: skip
"""Pages of the manual, in the order of reading."""
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#|attachment:)([^)\s#]+)(#[^)]*)?\)")


def main(out: Path) -> int:
    """Gather the pages in ``OUT/pages``, and make ``OUT/html`` of them; warnings are errors."""
    pages = out / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    shutil.copy(HERE / "conf.py", pages)
    shutil.copytree(ROOT / "docs" / "images", pages / "images")
    texts = {name: (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in MANUAL}
    texts |= {
        f"agent/{p.stem}": p.read_text("utf-8") for p in (ROOT / "docs" / "agent").glob("*.md")
    }
    texts |= {p.stem: p.read_text("utf-8") for p in HERE.glob("*.md")}
    texts |= {"keys": keys_page(), "library": library_page(), "vendor": vendor_page()}
    texts |= {"commands": commands_page(), "api": api_page()}
    for name, text in texts.items():
        path = pages / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(LINK.sub(lambda m, n=name: _link(m, n, texts), text), "utf-8")
    (pages / "tutorials").mkdir()
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        _tutorial(notebook, pages / "tutorials")
    return build_main(["-W", "--keep-going", "-q", "-j", "2", str(pages), str(out / "html")])


def _tutorial(path: Path, folder: Path) -> None:
    """Copy a notebook; pictures that it holds become files, which Sphinx can find."""
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        for name, kinds in cell.pop("attachments", {}).items():
            (folder / name).write_bytes(base64.b64decode(kinds["image/png"]))
            cell["source"] = "".join(cell["source"]).replace(f"attachment:{name}", name)
    (folder / path.name).write_text(json.dumps(notebook), "utf-8")


def _link(match: re.Match[str], page: str, texts: dict[str, str]) -> str:
    """Return a link as it is where the site has what it leads to, else a name of the file."""
    text, target, place = match.groups()
    inside = (ROOT / "docs" / Path(page).parent / target).resolve()
    docs = ROOT / "docs"
    if inside.is_relative_to(docs):
        known = inside.relative_to(docs).with_suffix("").as_posix()
        if known in texts or inside.is_relative_to(docs / "images"):
            return match[0]
    if target.startswith("tutorials/") or target.removesuffix(".md") in texts:
        return match[0]
    if not inside.exists():
        raise FileNotFoundError(f"{page}: {target} leads nowhere")
    return f"{text} (`{inside.relative_to(ROOT)}`)" if place is None or text else text


def keys_page() -> str:
    """The keys of mapping, dispatch and machine files, from the schemas that editors read."""
    parts = ["# Keys of mapping and machine files\n"]
    schemas = {
        "Mapping": mapping_schema(),
        "Dispatch": dispatch_schema(),
        "Machine": machine_schema(),
    }
    for title, schema in schemas.items():
        rows = dict(_keys(schema, ""))
        parts.append(f"## {title} files\n\n{schema.get('description', '')}\n")
        parts.append(_table(("key", "what it says"), [(f"`{k}`", v) for k, v in rows.items()]))
    return "\n".join(parts)


def _keys(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(schema, dict):
        return
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}", inner.get("description", "")
        if path.count(".") < 3 and name != "within":
            yield from _keys(inner, f"{path}{name}.")
    for key, mark in (
        ("items", ""),
        ("additionalProperties", "NAME."),
        ("patternProperties", "NAME."),
    ):
        inner = schema.get(key)
        for one in inner.values() if key == "patternProperties" and inner else [inner]:
            yield from _keys(one, f"{path}{mark}")
    for inner in (schema.get("else"), *schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _keys(inner, path)


def library_page() -> str:
    """The operator library: what each computes."""
    rows = []
    for name in names():
        entry = load(name)
        rows.append((f"`{name}`", (entry.function.__doc__ or "").strip().partition("\n")[0]))
    return "# What each operator computes\n\n" + _table(("operator", "what it computes"), rows)


def vendor_page() -> str:
    """The commands of a DSA's vendor library, and their arguments."""
    parts = ["# Vendor commands\n\nWhat the C of a DSA calls; a machine file declares them under "
             "`vendor`.\n"]  # fmt: skip
    for name, command in VENDOR.items():
        rows = [(f"`{a.name}`", a.kind, a.meaning) for a in command.arguments]
        parts.append(
            f"## {name}\n\n{command.meaning}\n\n{_table(('argument', 'kind', 'meaning'), rows)}"
        )
    return "\n".join(parts)


def commands_page() -> str:
    """The command line, from the help of each command."""
    parts = ["# The command line\n\nEach has `--help`, with all options.\n"]
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        said = (command.help or "").replace("\b", "")
        summary, _, rest = said.strip().partition("\n")
        examples = "\n".join(line.strip() for line in rest.splitlines() if line.strip())
        parts.append(f"## septran {name}\n\n{summary}\n\n```text\n{examples}\n```\n")
    return "\n".join(parts)


def api_page() -> str:
    """The public names, by their docstrings."""
    parts, seen = ["# API\n"], set()
    for owner in (septran, septran.task):
        parts.append(f"## {owner.__name__}\n")
        for name in sorted(owner.__all__):
            thing = getattr(owner, name)
            if name.startswith("__") or not callable(thing) or thing in seen:
                continue
            seen.add(thing)
            kind = "class" if isinstance(thing, type) else "function"
            home = f"{thing.__module__}.{thing.__qualname__}"
            parts.append(f"### {name}\n\n```{{eval-rst}}\n.. auto{kind}:: {home}\n```\n")
    return "\n".join(parts)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return (
        "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines)
        + "\n"
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
