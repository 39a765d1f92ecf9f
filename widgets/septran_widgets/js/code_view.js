// A program text whose lines and words are linked; usable by mouse and by keyboard.
import {coloured} from "./colouring.js";
import {tag, unique} from "./dom.js";

/** One document; `focus` lights its lines up, `label` names it to a screen reader. */
export class CodeView {
  constructor(document, focus, label) {
    this.document = document;
    this.focus = focus;
    this.id = unique("code");
    this.active = -1;
    this.word = -1;
    this.body = tag("div", { class: "sep-code", role: "listbox", tabindex: "0", "aria-label": label });
    this.rail = tag("div", { class: "sep-rail", "aria-hidden": "true" });
    this.element = tag("div", { class: "sep-code-frame" }, this.body, this.rail);
    this.draw();
    this.listen();
    focus.onChange(() => this.ticks());
  }

  get file() { return this.document.file; }
  get text() { return this.document.text; }

  draw() {
    const lines = this.document.text.replace(/\n$/, "").split("\n");
    const colours = coloured(lines.join("\n"), this.document.language);
    const sets = pairs(this.document.lines);
    const words = wordsOf(this.document.words);
    this.lines = lines.map((text, n) => this.line(text, n, colours[n], sets.get(n + 1) || 0, words.get(n + 1) || []));
    const left = this.document.leftOut;
    if (left) this.lines.push(tag("div", { class: "sep-more", role: "option", "aria-disabled": "true" }, `${left.toLocaleString("en-US")} more lines`));
    this.body.replaceChildren(...this.lines);
  }

  line(text, n, colours, set, words) {
    const line = tag("div", { class: "sep-code-line", role: "option", id: `${this.id}-${n + 1}`, "data-n": n + 1 });
    line.sets = set ? [set] : [];
    line.words = [];
    let at = 0;
    for (const [start, length, own] of words) {
      paint(line, text, at, start, colours);
      const word = tag("span", { class: "sep-word" });
      word.sets = own ? [own, ...line.sets] : line.sets;
      paint(word, text, start, start + length, colours);
      line.append(word);
      line.words.push(word);
      this.focus.register(word, own);
      at = start + length;
    }
    paint(line, text, at, text.length, colours);
    if (!text.trim()) line.setAttribute("aria-label", "empty line");
    this.focus.register(line, set);
    return line;
  }

  listen() {
    this.body.addEventListener("pointerover", (event) => this.over(event));
    this.body.addEventListener("pointermove", (event) => { this.at = placeOf(event); });
    this.body.addEventListener("pointerleave", () => { this.at = null; this.focus.point([], null); });
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("focus", () => { if (this.active < 0) this.go(this.firstVisible(), -1, false); });
  }

  target(event) {
    const line = event.target.closest(".sep-code-line");
    return line && (event.target.closest(".sep-word") || line);
  }

  over(event) {
    if (placeOf(event) === this.at) return; // the text moved under a pointer that rests
    this.at = placeOf(event);
    const found = this.target(event);
    if (found) this.focus.point(found.sets, found);
  }

  click(event) {
    const found = this.target(event);
    if (!found || String(getSelection())) return;
    const line = found.closest(".sep-code-line");
    this.mark(Number(line.dataset.n) - 1, line.words.indexOf(found));
    this.focus.hold(found.sets, found);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.body.clientHeight / 18) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) this.go(this.active + steps[event.key], -1);
    else if (event.key === "Home") this.go(0, -1);
    else if (event.key === "End") this.go(this.lines.length - 1, -1);
    else if (event.key === "ArrowRight") this.go(this.active, this.word + 1);
    else if (event.key === "ArrowLeft") this.go(this.active, this.word - 1);
    else if (event.key === "Enter" || event.key === " ") this.hold();
    else return;
    event.preventDefault();
  }

  /** Make a line, or a word of it, the active one. */
  go(n, word, scroll = true) {
    this.mark(n, word);
    const line = this.lines[this.active];
    if (!line) return;
    if (scroll) this.reveal(this.active + 1, "nearest");
    const found = line.words && line.words[this.word] || line;
    if (!this.focus.held) this.focus.point(found.sets || [], found);
  }

  hold() {
    const line = this.lines[this.active];
    const found = line && (line.words[this.word] || line);
    if (found) this.focus.hold(found.sets, found);
  }

  mark(n, word) {
    const before = this.lines[this.active];
    if (before) for (const one of [before, ...(before.words || [])]) one.classList.remove("sep-active");
    this.active = Math.min(Math.max(n, 0), this.lines.length - 1);
    const line = this.lines[this.active];
    if (!line) return;
    this.word = Math.min(Math.max(word, -1), (line.words || []).length - 1);
    (line.words && line.words[this.word] || line).classList.add("sep-active");
    this.body.setAttribute("aria-activedescendant", line.id);
  }

  firstVisible() {
    const top = this.body.scrollTop;
    return Math.max(0, this.lines.findIndex((line) => line.offsetTop >= top));
  }

  /** Scroll a line, from 1, to the middle, or just into view. */
  reveal(n, where = "center") {
    const line = this.lines[n - 1];
    if (!line) return;
    const { scrollTop, clientHeight } = this.body;
    const top = line.offsetTop, bottom = top + line.offsetHeight;
    if (top >= scrollTop && bottom <= scrollTop + clientHeight) return;
    if (where === "center") this.body.scrollTo(0, top - clientHeight / 2);
    else this.body.scrollTop = top < scrollTop ? top : bottom - clientHeight;
  }

  /** Numbers of the lines that are lit, or hold a word that is. */
  lit() {
    const found = [];
    this.lines.forEach((line, n) => {
      if (line.classList.contains("sep-lit") || (line.words || []).some((w) => w.classList.contains("sep-lit"))) found.push(n + 1);
    });
    return found;
  }

  /** Bring the first lit line into view where none is. */
  follow() {
    const all = this.lit();
    const near = all.filter((n) => !this.lines[n - 1].classList.contains("sep-around"));
    const lit = near.length ? near : all;
    const { scrollTop, clientHeight } = this.body;
    const seen = lit.some((n) => {
      const top = this.lines[n - 1].offsetTop;
      return top >= scrollTop && top < scrollTop + clientHeight - 12;
    });
    if (lit.length && !seen) this.reveal(lit[0]);
  }

  /** Marks beside the scroll bar: where in the whole text something is lit. */
  ticks() {
    const total = this.lines.length;
    const places = new Set(this.lit().map((n) => Math.round((n - 0.5) / total * 200)));
    this.rail.replaceChildren(...[...places].map((at) => tag("i", { style: `top:${at / 2}%` })));
  }
}

function placeOf(event) { return `${event.clientX} ${event.clientY}`; }

function paint(target, text, from, to, colours) {
  let at = from;
  for (const [start, end, kind] of colours) {
    if (end <= at || start >= to) continue;
    const first = Math.max(start, at), last = Math.min(end, to);
    if (first > at) target.append(text.slice(at, first));
    target.append(tag("span", { class: `sep-c-${kind}` }, text.slice(first, last)));
    at = last;
  }
  if (at < to) target.append(text.slice(at, to));
}

function pairs(flat) {
  const found = new Map();
  for (let n = 0; n < flat.length; n += 2) found.set(flat[n], flat[n + 1]);
  return found;
}

function wordsOf(flat) {
  const found = new Map();
  for (let n = 0; n < flat.length; n += 4) {
    const [line, start, length, set] = flat.slice(n, n + 4);
    if (!found.has(line)) found.set(line, []);
    found.get(line).push([start, length, set]);
  }
  return found;
}
