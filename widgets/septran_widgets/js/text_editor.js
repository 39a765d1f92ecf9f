// A text that is coloured while one writes, with mistakes at their lines.
import {coloured} from "./colouring.js";
import {refill, tag, unique} from "./dom.js";

/** `changed(text)` hears every change of the user. */
export class TextEditor {
  constructor(text, language, label, changed) {
    this.language = language;
    this.changed = changed;
    this.mistakes = new Map();
    this.told = tag("div", { class: "sep-hidden", id: unique("told") });
    this.area = tag("textarea", {
      class: "sep-area", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", "aria-label": label,
      "aria-describedby": this.told.id, oninput: () => { this.draw(); this.changed(this.area.value); },
    });
    this.back = tag("div", { class: "sep-behind", "aria-hidden": "true" });
    this.element = tag("div", { class: "sep-text" }, this.back, this.area, this.told);
    this.area.addEventListener("scroll", () => this.follow());
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.text = text;
  }

  get text() { return this.area.value; }

  set text(value) {
    if (value !== this.area.value) {
      const { selectionStart, selectionEnd, scrollTop } = this.area;
      this.area.value = value;
      this.area.setSelectionRange(selectionStart, selectionEnd);
      this.area.scrollTop = scrollTop;
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
    this.back.replaceChildren(...text.split("\n").map((line, n) => this.line(line, n + 1, colours[n])));
    this.follow();
  }

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
    if (found.length) element.append(tag("span", { class: "sep-said" }, found.map((one) => one.message).join("; ")));
    return element;
  }

  follow() {
    this.back.scrollTop = this.area.scrollTop;
    this.back.scrollLeft = this.area.scrollLeft;
  }

  /** Bring the caret to a place, from 1. */
  go(line, column) {
    const lines = this.area.value.split("\n");
    const at = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + Math.max(0, column - 1);
    this.area.focus();
    this.area.setSelectionRange(at, at);
    this.area.scrollTop = Math.max(0, (line - 6) * 18);
  }

  key(event) {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.altKey) return;
    const before = this.area.value.slice(0, this.area.selectionStart).split("\n").pop();
    const indent = /^ */.exec(before)[0];
    event.preventDefault();
    this.area.setRangeText(`\n${indent}`, this.area.selectionStart, this.area.selectionEnd, "end");
    this.draw();
    this.changed(this.area.value);
  }
}
