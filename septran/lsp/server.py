"""The server: mistakes as one types, completion, hover, and the tasks that a rule is for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import septran
from septran.errors import CallError, Errors, SepTranError
from septran.location import Location
from septran.lsp.cursor import cursor_at, key_at
from septran.lsp.program import EditedLogic, EditedProgram, rule_lines, subject_line, subject_of
from septran.lsp.words import about_key, machine_of, words_at
from septran.machine.loader import read_machine
from septran.mapping.loader import load_mapping
from septran.mapping.mapping import MappingFile


class LanguageServerMissingError(CallError):
    """The package that speaks the Language Server Protocol is not installed."""

    code = "SEP694"


@dataclass
class Opened:
    """A file in the editor, as it was when it was last right."""

    kind: str
    mapping: MappingFile | None = None
    program: EditedProgram | None = None


def kind_of(text: str) -> str:
    """Return what a text is: a machine if it has a machine's sections, else a mapping."""
    keys = {row.partition(":")[0] for row in text.splitlines()}
    return "machine" if keys & {"backend", "processors", "memories", "instructions"} else "mapping"


def mistakes(error: SepTranError) -> Iterator[SepTranError]:
    """Yield each mistake of an error."""
    yield from error.errors if isinstance(error, Errors) else (error,)


class Documents:
    """What is known of the files that an editor has open; `run_logic` allows their own logic."""

    def __init__(self, run_logic: bool = False) -> None:
        self.run_logic = run_logic
        self.opened: dict[str, Opened] = {}

    def update(self, uri: str, text: str, compiled: bool) -> list[SepTranError]:
        """Read a text and return its mistakes; `compiled` compiles it with its logic, too."""
        from pygls.uris import to_fs_path

        path = Path(to_fs_path(uri) or uri)
        known = self.opened.setdefault(uri, Opened("mapping"))
        known.kind = kind_of(text)
        try:
            if known.kind == "machine":
                read_machine(text, str(path))
                return []
            known.mapping = load_mapping(f"{text}\n", folder=path.parent, name=str(path))
            subject = subject_of(text, path) if compiled else None
            if subject is not None and self._may_run(subject) and not known.mapping.cases:
                known.program = EditedProgram.of(subject, known.mapping)
        except SepTranError as error:
            return [_here(one, text, path) for one in mistakes(error)]
        return []

    def _may_run(self, subject: EditedLogic) -> bool:
        return subject.shipped or self.run_logic

    def hover(self, uri: str, text: str, line: int, column: int) -> str:
        """Return what the key under the cursor means, the tasks of its rule, and the prediction."""
        known = self.opened.get(uri, Opened(kind_of(text)))
        path = key_at(text, line, column)
        said = about_key(known.kind, path) if path is not None else ""
        parts = [f"`{path[-1]}`: {said}"] if path is not None and said else []
        if known.program is not None:
            tasks = [name for name, _ in self.tasks(uri, line)]
            parts += ["for " + ", ".join(f"`{name}`" for name in tasks)] if tasks else []
            parts += filter(None, [known.program.prediction()])
        return "\n\n".join(parts)

    def tasks(self, uri: str, line: int) -> list[tuple[str, Location]]:
        """Return the tasks that the rule at a line, from 0, decides something of."""
        known = self.opened.get(uri)
        if known is None or known.program is None or known.mapping is None:
            return []
        first, last = rule_lines(known.mapping, line + 1)
        return list(known.program.tasks_at(known.mapping.file, first, last))


def make_server(run_logic: bool = False) -> Any:
    """Return the server, to be started; raises LanguageServerMissingError."""
    try:
        from lsprotocol import types as lsp
        from pygls.lsp.server import LanguageServer
    except ModuleNotFoundError as error:
        hint = 'pip install "septran[lsp]"'
        raise LanguageServerMissingError(f"the server needs {error.name}", hint=hint) from error
    server = LanguageServer("septran", septran.__version__)
    Session(server, lsp, Documents(run_logic)).listen()
    return server


@dataclass(frozen=True)
class Session:
    """What an editor asks, and the answers in the protocol's types."""

    server: Any
    lsp: Any
    """The module of the protocol's types."""
    documents: Documents

    def listen(self) -> None:
        """Have the server answer by the methods here."""
        lsp, feature = self.lsp, self.server.feature
        # The server writes marks on what it calls, which methods do not take.
        feature(lsp.TEXT_DOCUMENT_DID_OPEN)(lambda asked: self.tell(asked, compiled=True))
        feature(lsp.TEXT_DOCUMENT_DID_CHANGE)(lambda asked: self.tell(asked, compiled=False))
        feature(lsp.TEXT_DOCUMENT_DID_SAVE)(lambda asked: self.tell(asked, compiled=True))
        feature(lsp.TEXT_DOCUMENT_DID_CLOSE)(lambda asked: self.close(asked))
        marks = lsp.CompletionOptions(trigger_characters=["{", ":", " ", "[", ","])
        feature(lsp.TEXT_DOCUMENT_COMPLETION, marks)(lambda asked: self.complete(asked))
        feature(lsp.TEXT_DOCUMENT_HOVER)(lambda asked: self.hover(asked))
        feature(lsp.TEXT_DOCUMENT_DEFINITION)(lambda asked: self.define(asked))

    def text(self, asked: Any) -> tuple[str, str]:
        """Return the name and the text of the file that is asked about."""
        uri = str(asked.text_document.uri)
        return uri, str(self.server.workspace.get_text_document(uri).source)

    def tell(self, asked: Any, compiled: bool) -> None:
        """Tell the mistakes of a text as it is now."""
        uri, text = self.text(asked)
        told = [_diagnostic(self.lsp, e, text) for e in self.documents.update(uri, text, compiled)]
        self.server.text_document_publish_diagnostics(
            self.lsp.PublishDiagnosticsParams(uri=uri, diagnostics=told)
        )

    def close(self, asked: Any) -> None:
        """Forget a file."""
        self.documents.opened.pop(str(asked.text_document.uri), None)

    def complete(self, asked: Any) -> list[Any]:
        """Return what may be written at the cursor."""
        _, text = self.text(asked)
        cursor = cursor_at(text, asked.position.line, asked.position.character)
        kinds = self.lsp.CompletionItemKind
        return [
            self.lsp.CompletionItem(
                label=word.text, kind=kinds.Property if word.key else kinds.Value,
                insert_text=f"{word.text}: " if word.key else word.text,
                detail=word.about[:80], documentation=word.about,
            )
            for word in words_at(kind_of(text), cursor, machine_of(text))
        ]  # fmt: skip

    def hover(self, asked: Any) -> Any:
        """Return what is known of the place under the pointer; None where nothing is."""
        uri, text = self.text(asked)
        said = self.documents.hover(uri, text, asked.position.line, asked.position.character)
        content = self.lsp.MarkupContent(kind=self.lsp.MarkupKind.Markdown, value=said)
        return self.lsp.Hover(content) if said else None

    def define(self, asked: Any) -> list[Any]:
        """Return where the tasks are that the rule at the cursor is for."""
        found = self.documents.tasks(str(asked.text_document.uri), asked.position.line)
        return [
            self.lsp.Location(
                uri=Path(where.file).resolve().as_uri(), range=_range(self.lsp, where.line, 1, 0)
            )
            for where in dict.fromkeys(where for _, where in found)
        ]


def _here(error: SepTranError, text: str, path: Path) -> SepTranError:
    """A mistake as one of the file that is edited: of its logic, it is where that is named."""
    if error.where is not None and error.where.file != str(path):
        error.message = f"{error.where}: {error.message}"
    if error.where is None or error.where.file != str(path):
        error.where = subject_line(text, path)
    return error


def _diagnostic(lsp: Any, error: SepTranError, text: str) -> Any:
    where = error.where
    line = min(where.line, len(text.splitlines()) or 1) if where is not None else 1
    column, length = ((where.column or 1), max(where.length, 1)) if where is not None else (1, 1)
    hint = f"\n{error.hint}" if error.hint else ""
    return lsp.Diagnostic(
        range=_range(lsp, line, column, length), message=f"{error.message}{hint}",
        severity=lsp.DiagnosticSeverity.Error, code=error.code, source="septran",
    )  # fmt: skip


def _range(lsp: Any, line: int, column: int, length: int) -> Any:
    start = lsp.Position(line=line - 1, character=column - 1)
    return lsp.Range(start=start, end=lsp.Position(line=line - 1, character=column - 1 + length))
