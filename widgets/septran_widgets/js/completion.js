// Words that may stand at the caret of a text, and what a key means.
import {refill, tag, unique} from "./dom.js";

const LINE = 18;
const MOST = 200;

/** `ask(want, line, column, heard)` asks for ``words`` or ``about`` at a place, from 0. */
export class Completion {
  constructor(editor, ask) {
    this.editor = editor;
    this.ask = ask;
    this.at = 0;
    this.words = [];
    this.list = tag("ul", { class: "sep-words", role: "listbox", id: unique("words"), "aria-label": "what may stand here", hidden: true });
    editor.element.append(this.list);
    const area = editor.area;
    area.setAttribute("aria-controls", this.list.id);
    area.title = "Ctrl+Space: what may stand here";
    area.addEventListener("keydown", (event) => this.key(event), true);
    area.addEventListener("input", () => { if (this.open) this.show(); });
    area.addEventListener("blur", () => this.close());
    area.addEventListener("pointermove", (event) => this.rest(event));
    area.addEventListener("pointerleave", () => clearTimeout(this.timer));
  }

  get open() { return !this.list.hidden; }

  /** Line and column of the caret, from 0. */
  place() {
    const before = this.editor.area.value.slice(0, this.editor.area.selectionStart).split("\n");
    return [before.length - 1, before[before.length - 1].length];
  }

  typed() { return /[\w*."{]*$/.exec(this.editor.area.value.slice(0, this.editor.area.selectionStart))[0].replace(/^[{"]+/, ""); }

  want() {
    const [line, column] = this.place();
    const { scrollTop, clientHeight } = this.editor.area;
    if (line * LINE < scrollTop || (line + 2) * LINE > scrollTop + clientHeight) this.editor.reveal(line + 1);
    this.ask("words", line, column, (words) => { this.words = words; this.at = 0; this.show(); });
  }

  show() {
    const typed = this.typed();
    this.shown = this.words.filter(([text]) => text.startsWith(typed)).slice(0, MOST);
    this.at = Math.min(this.at, Math.max(0, this.shown.length - 1));
    const [line, column] = this.place();
    const { scrollTop, scrollLeft, clientHeight } = this.editor.area;
    const top = (line + 1) * LINE + 8 - scrollTop;
    const below = top + 8 * LINE < clientHeight || top < clientHeight / 2;
    this.list.style.cssText = `left: calc(${Math.max(0, column - typed.length)}ch + 46px - ${scrollLeft}px); ${below ? `top: ${top}px` : `bottom: calc(100% - ${top - LINE - 4}px)`}`;
    refill(this.list, this.shown.map(([text, about], n) => tag("li", {
      role: "option", id: `${this.list.id}-${n}`, "aria-selected": String(n === this.at),
      onpointerdown: (event) => { event.preventDefault(); this.take(n); },
    }, tag("code", {}, text), " ", tag("span", { class: "sep-note" }, about))));
    this.list.hidden = this.shown.length === 0;
    this.choose(this.at);
  }

  choose(n) {
    this.at = n;
    [...this.list.children].forEach((one, k) => one.setAttribute("aria-selected", String(k === n)));
    if (this.open) this.editor.area.setAttribute("aria-activedescendant", `${this.list.id}-${n}`);
    const chosen = this.list.children[n];
    if (chosen) this.list.scrollTop = Math.max(0, chosen.offsetTop - 4 * LINE);
  }

  take(n) {
    const [text, , key] = this.shown[n];
    const end = this.editor.area.selectionStart;
    const start = end - this.typed().length;
    this.close();
    this.editor.replace(key ? `${text}: ` : text, start, end);
  }

  close() {
    this.list.hidden = true;
    this.editor.area.removeAttribute("aria-activedescendant");
  }

  key(event) {
    if (event.key === " " && event.ctrlKey) { this.want(); }
    else if (!this.open) return;
    else if (event.key === "ArrowDown") this.choose((this.at + 1) % this.shown.length);
    else if (event.key === "ArrowUp") this.choose((this.at + this.shown.length - 1) % this.shown.length);
    else if (event.key === "Enter" || event.key === "Tab") this.take(this.at);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  /** What a key means, where the pointer rests on it. */
  rest(event) {
    clearTimeout(this.timer);
    const box = this.editor.area.getBoundingClientRect();
    const line = Math.floor((event.clientY - box.top - 6 + this.editor.area.scrollTop) / LINE);
    const wide = this.width();
    const column = Math.floor((event.clientX - box.left - 46 + this.editor.area.scrollLeft) / wide);
    this.timer = setTimeout(() => this.ask("about", line, Math.max(0, column), (about) => {
      this.editor.area.title = about || "Ctrl+Space: what may stand here";
    }), 150);
  }

  /** A character's width. */
  width() {
    const probe = tag("span", { class: "sep-behind", style: "inset: auto; padding: 0; visibility: hidden" }, "0".repeat(50));
    this.editor.element.append(probe);
    const found = probe.getBoundingClientRect().width / 50;
    probe.remove();
    return found || 7;
  }
}
