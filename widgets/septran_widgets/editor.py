"""The mapping editor as a widget: it compiles what is written, and runs it on request."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from septran.errors import SepTranError
from septran.lsp.cursor import cursor_at, key_at
from septran.lsp.words import about_key, machine_of, words_at
from septran.mapping.tune import settled
from septran.views.editing import EditedText, Explain, Knob, draft, with_knob
from septran.views.links import linked, linked_data
from septran.views.pictures.html import Markup, code, panel, strong
from septran_widgets.view import View

Figure = tuple[str, float | str, str, float | None]


class Editor(View):
    """A mapping's text, its mistakes, its tunables, its prediction and its stages."""

    module = "editor"

    def __init__(
        self,
        text: str,
        folder: Path | None,
        name: str,
        explain: Explain,
        compile: Callable[[Any], Any],
    ) -> None:
        """`explain` and `compile` take a loaded mapping; `folder` is where it finds others."""
        self._folder, self._explain, self._compile = folder, explain, compile
        self._point: dict[str, Any] = {}
        self._before: dict[str, float] = {}
        self.draft = draft(text, folder, explain, self._point)
        """What the text is now, with its explanation where it has no mistakes."""
        explanation = self.draft.explanation
        title = f"{explanation.name} with {name}" if explanation is not None else name
        static: Markup = panel(strong(title), code(text))
        self._frame = {"title": title, "name": f"my-{name}"}
        super().__init__(self._data(0.0, late=True), str(static), f"<Editor of {title}>")
        self.on_msg(self._asked)

    @property
    def yaml(self) -> str:
        """The mapping as it is written, with the chosen values for what is `!tune`."""
        found, mapping = self.draft.text, self.draft.mapping
        return found if mapping is None else settled(found, mapping, self._point)

    def _asked(self, _: Any, question: Any, __: Any) -> None:
        """Answer one question of the view."""
        if question.get("want") in ("words", "about"):
            self.send({"look": question["want"], "found": _looked_up(**question)})
            return
        number, answer = question.get("number"), {}
        text = str(question.get("text", self.draft.text))
        try:
            match question.get("want"):
                case "text":
                    self._update(text)
                case "turn":
                    answer = {"text": self._turn(text, question["place"], question["value"])}
                case "run":
                    self._update(text)
                    answer = {"measured": self._run()}
                case "save":
                    self._update(text)
                    answer = {"note": f"saved as {self.save(question['path'])}"}
        except (SepTranError, OSError, ValueError) as error:
            answer = {"note": str(error).splitlines()[0]}
        except Exception as error:
            answer = {"note": f"a mistake of SepTran itself: {type(error).__name__}: {error}"}
            raise
        finally:  # the view waits for it
            self.send({"number": number, **answer})

    def _turn(self, text: str, place: Any, value: Any) -> str:
        knob = self._knob(place)
        if knob is None:
            return text
        if knob.tuned:
            self._point[knob.name] = tuple(value) if isinstance(value, list) else value
        else:
            text = with_knob(text, knob, value)
        self._update(text)
        return text

    def _knob(self, place: Any) -> Knob | None:
        wanted = tuple(place)
        return next((k for k in self.draft.knobs if (k.line, k.column, k.name) == wanted), None)

    def _update(self, text: str) -> None:
        """Compile and show: first what is quick, then the generated code."""
        start = time.perf_counter()
        self._before = {n: value for n, value, _, _ in self._figures() if isinstance(value, float)}
        self.draft = draft(text, self._folder, self._explain, self._point)
        took = time.perf_counter() - start
        self.data = self._data(took, late=False)
        if self.draft.explanation is not None:
            self.data = self._data(took, late=True)

    def _data(self, seconds: float, *, late: bool) -> dict[str, Any]:
        explanation = self.draft.explanation
        stages = linked_data(linked(explanation, late=late)) if explanation is not None else None
        return {
            **self._frame, "text": self.draft.text, "seconds": seconds, "late": late,
            "mistakes": [asdict(mistake) for mistake in self.draft.mistakes],
            "knobs": [asdict(knob) for knob in self.draft.knobs],
            "figures": list(self._figures()), "stages": stages,
        }  # fmt: skip

    def _figures(self) -> list[Figure]:
        return figures(self.draft, self._before)

    def _run(self) -> str:
        """Run on random arrays and say how long it took; checks the result, too."""
        mapping = self.draft.mapping
        if mapping is None or self.draft.explanation is None:
            return "there are mistakes"
        values = {
            d.name: self._point.get(d.name, next(d.tune.candidates())) for d in mapping.dimensions
        }
        kernel = self._compile(mapping.with_values(values) if values else mapping)
        lines = str(kernel.profile()).strip().splitlines()
        return "\n".join(lines[:6])

    def save(self, path: str | Path) -> Path:
        """Write the mapping with its comments and chosen values; never over another file."""
        target = Path(path)
        if target.suffix not in (".yaml", ".yml"):
            raise ValueError(f"{target.name!r} is not a .yaml file")
        text = self.yaml
        if target.exists() and target.read_text("utf-8") != text:
            raise ValueError(f"{target} exists; save under another name")
        target.write_text(text, encoding="utf-8")
        return target


def _looked_up(want: str, text: str, line: int, column: int) -> Any:
    """What may stand at a place of a mapping, from 0, or what the key there means."""
    if want == "about":
        path = key_at(text, line, column)
        about = about_key("mapping", path) if path is not None else ""
        return f"{path[-1]}: {about}" if path is not None and about else ""
    words = words_at("mapping", cursor_at(text, line, column), machine_of(text))
    return [[word.text, word.about, word.key] for word in words]


def figures(draft: EditedText, before: dict[str, float]) -> list[Figure]:
    """What the model says: name, value, unit, and the value before the last change."""
    if draft.explanation is None:
        return []
    prediction = draft.explanation.prediction
    bound = prediction.bound_by
    found: list[tuple[str, float | str, str]] = [
        ("time", prediction.seconds, "s"),
        ("without overlap", prediction.without_overlap, "s"),
        ("moved", float(prediction.bytes_moved), "B"),
        ("units with work", f"{prediction.units_used} of {prediction.units}", ""),
    ]
    if prediction.cycles is not None:
        found.append(("cycles", float(prediction.cycles), ""))
    if bound is not None:
        found.append(("limited by", bound.name, ""))
    return [(name, value, unit, before.get(name)) for name, value, unit in found]
