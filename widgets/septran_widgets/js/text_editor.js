// A text that is coloured while one writes, with mistakes at their lines.
import {coloured} from "./colouring.js";
import {refill, tag, unique} from "./dom.js";

const HEIGHT = 18;

/** `changed(text)` hears every change of the user. */
export class TextEditor {
  constructor(text, language, label, changed) {
    this.language = language;
    this.changed = changed;
    this.mistakes = new Map();
    this.told = tag("div", { class: "sep-hidden", id: unique("told") });
    this.area = tag("textarea", {
      class: "sep-area", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", "aria-label": label,
      "aria-describedby": this.told.id, oninput: () => { this.draw(); if (!this.quiet) this.changed(this.area.value); },
    });
    this.back = tag("div", { class: "sep-behind", "aria-hidden": "true" });
    this.element = tag("div", { class: "sep-text" }, this.back, this.area, this.told);
    this.area.addEventListener("scroll", () => this.scrolled());
    this.area.addEventListener("pointermove", (event) => this.pointAt(event));
    this.area.addEventListener("pointerleave", () => this.point(0));
    for (const name of ["keyup", "click"]) this.area.addEventListener(name, () => this.point(this.caretLine()));
    this.area.addEventListener("keydown", (event) => this.key(event));
    // JupyterLab listens at the document before any element hears of a key: the window is earlier.
    const history = (event) => this.history(event);
    this.area.addEventListener("focus", () => window.addEventListener("keydown", history, true));
    this.area.addEventListener("blur", () => window.removeEventListener("keydown", history, true));
    this.area.value = text;
    this.body = this.area;
    this.draw();
  }

  get text() { return this.area.value; }

  set text(value) {
    const old = this.area.value;
    if (value !== old) {
      const { selectionStart, selectionEnd, scrollTop } = this.area;
      const focused = this.area.getRootNode().activeElement;
      const least = Math.min(old.length, value.length);
      let [start, end] = [0, 0];
      while (start < least && old[start] === value[start]) start += 1;
      while (end < least - start && old[old.length - 1 - end] === value[value.length - 1 - end]) end += 1;
      this.quiet = true; // it is no change of the user's
      this.replace(value.slice(start, value.length - end), start, old.length - end);
      this.quiet = false;
      this.area.setSelectionRange(selectionStart, selectionEnd);
      this.area.scrollTop = scrollTop;
      if (focused && focused !== this.area) focused.focus({ preventScroll: true });
    }
    this.draw();
  }

  /** Mistakes are [{line, column, length, message}]; those without a line are shown elsewhere. */
  mark(mistakes) {
    this.mistakes = new Map();
    for (const mistake of mistakes) {
      if (!mistake.line) continue;
      if (!this.mistakes.has(mistake.line)) this.mistakes.set(mistake.line, []);
      this.mistakes.get(mistake.line).push(mistake);
    }
    this.area.setAttribute("aria-invalid", String(mistakes.length > 0));
    refill(this.told, mistakes.map((one) => `line ${one.line}: ${one.message}. `));
    this.draw();
  }

  draw() {
    const text = this.area.value;
    const colours = coloured(text, this.language);
    if (this.focus) this.focus.forget(this.back);
    this.back.replaceChildren(...text.split("\n").map((line, n) => this.line(line, n + 1, colours[n])));
    this.scrolled();
  }

  /** Have lines light up with what was made of them, as long as the text is what was compiled. */
  link(document, focus) {
    this.linked = document.text.trimEnd();
    this.sets = new Map();
    for (let n = 0; n < document.lines.length; n += 2) this.sets.set(document.lines[n], document.lines[n + 1]);
    this.focus = focus;
    this.draw();
    return this;
  }

  /** Point at what a line, from 1, became. */
  point(n) {
    if (!this.focus || n === this.pointed) return;
    this.pointed = n;
    const line = this.back.children[n - 1];
    this.focus.point(line && line.set ? [line.set] : [], line);
  }

  pointAt(event) {
    this.point(Math.floor((event.clientY - this.area.getBoundingClientRect().top - 6 + this.area.scrollTop) / HEIGHT) + 1);
  }

  caretLine() { return this.area.value.slice(0, this.area.selectionStart).split("\n").length; }

  lit() {
    return [...this.back.children].flatMap((line, n) => (line.classList.contains("sep-lit") ? [n + 1] : []));
  }

  /** Bring the first line that is lit into view where none is. */
  follow() {
    const lit = this.lit();
    const seen = (n) => (n - 1) * HEIGHT >= this.area.scrollTop && n * HEIGHT <= this.area.scrollTop + this.area.clientHeight;
    if (lit.length && !lit.some(seen)) this.reveal(lit[0]);
  }

  reveal(n) { this.area.scrollTop = Math.max(0, (n - 6) * HEIGHT); }

  line(text, n, colours) {
    const found = this.mistakes.get(n) || [];
    const element = tag("div", { class: `sep-text-line${found.length ? " sep-wrong" : ""}`, "data-n": n });
    const cuts = new Set([0, text.length]);
    for (const [start, end] of colours) { cuts.add(start); cuts.add(end); }
    for (const { column, length } of found) { cuts.add(column - 1); cuts.add(Math.min(text.length, column - 1 + Math.max(1, length))); }
    const places = [...cuts].filter((at) => at <= text.length).sort((a, b) => a - b);
    for (let i = 0; i + 1 < places.length; i += 1) {
      const [from, to] = [places[i], places[i + 1]];
      const kind = colours.find(([start, end]) => start <= from && to <= end);
      const wrong = found.some(({ column, length }) => column - 1 <= from && from < column - 1 + Math.max(1, length));
      const names = [kind && `sep-c-${kind[2]}`, wrong && "sep-squiggle"].filter(Boolean).join(" ");
      element.append(names ? tag("span", { class: names }, text.slice(from, to)) : text.slice(from, to));
    }
    element.set = this.focus && this.linked === this.area.value.trimEnd() ? this.sets.get(n) : 0;
    if (element.set) this.focus.register(element, element.set);
    if (found.length) element.append(tag("span", { class: "sep-said" }, found.map((one) => one.message).join("; ")));
    return element;
  }

  scrolled() {
    this.back.scrollTop = this.area.scrollTop;
    this.back.scrollLeft = this.area.scrollLeft;
  }

  /** What a search and a link lead to: a line, from 0. */
  go(n) {
    const at = this.area.value.split("\n").slice(0, n).reduce((sum, one) => sum + one.length + 1, 0);
    this.area.setSelectionRange(at, at);
    this.point(n + 1);
  }

  get lines() { return [...this.back.children]; }

  /** Bring the caret to a place, from 1. */
  caret(line, column) {
    const lines = this.area.value.split("\n");
    const at = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + Math.max(0, column - 1);
    this.area.focus();
    this.area.setSelectionRange(at, at);
    this.reveal(line);
  }

  /** Write `text` over a part as the user would, so that it can be undone. */
  replace(text, start, end) {
    this.area.focus({ preventScroll: true });
    this.area.setSelectionRange(start, end);
    const done = text ? document.execCommand("insertText", false, text) : document.execCommand("delete");
    if (!done) this.area.setRangeText(text, start, end, "end"); // not on a page yet: there is no history
  }

  /** Undo and redo, which JupyterLab would take for the notebook's. */
  history(event) {
    if (event.target !== this.area || !(event.ctrlKey || event.metaKey) || event.altKey) return;
    const pressed = event.key.toLowerCase();
    if (pressed !== "z" && pressed !== "y") return;
    event.preventDefault();
    event.stopImmediatePropagation();
    document.execCommand(pressed === "y" || event.shiftKey ? "redo" : "undo");
  }

  key(event) {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.altKey) return;
    const before = this.area.value.slice(0, this.area.selectionStart).split("\n").pop();
    const indent = /^ */.exec(before)[0];
    event.preventDefault();
    this.replace(`\n${indent}`, this.area.selectionStart, this.area.selectionEnd);
  }
}
