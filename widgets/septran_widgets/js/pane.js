// One pane of the explorer: a title, its views as tabs, and what can be done with them.
import {CodeView} from "./code_view.js";
import {refill, tag, unique} from "./dom.js";
import {DrawingView} from "./drawing_view.js";
import {PassesView} from "./passes_view.js";
import {copyText, saveText} from "./saving.js";

const ENDINGS = { python: "py", yaml: "yaml", c: "c", cuda: "cu", hip: "hip", asm: "s", llvm: "ll" };

/** A stage; its views are drawn when they are first looked at. */
export class Pane {
  constructor(pane, focus, passes, actions, own = null) {
    this.pane = pane;
    this.focus = focus;
    this.actions = actions;
    this.own = own;
    this.entries = own ? own.entries(pane, entriesOf(pane, passes)) : entriesOf(pane, passes);
    this.body = own ? own.body : tag("div", { class: "sep-pane-body" });
    this.tabs = this.entries.length > 1 ? this.tabList() : null;
    this.said = tag("span", { class: "sep-note", "aria-live": "polite" });
    const head = tag("div", { class: "sep-pane-head", ondblclick: () => actions.maximise(this) },
      tag("h3", {}, pane.title), this.tabs, tag("span", { class: "sep-spring" }), this.said, this.buttons());
    this.element = own ? own.under(head) : tag("section", { class: "sep-pane", "aria-label": pane.title, "data-pane": pane.name }, head, this.body);
    if (this.entries.length) this.show(this.entries.find((entry) => entry.title === pane.opened) || this.entries[0]);
    else refill(this.body, tag("p", { class: "sep-note sep-empty" }, pane.note || "nothing here"));
  }

  tabList() {
    const id = unique("tabs");
    const tabs = this.entries.map((entry, n) => {
      entry.tab = tag("button", {
        class: "sep-tab", role: "tab", type: "button", id: `${id}-${n}`, tabindex: "-1",
        onclick: () => this.show(entry), onkeydown: (event) => this.tabKey(event, n),
      }, entry.title, entry.count = tag("span", { class: "sep-count", "aria-hidden": "true" }));
      return entry.tab;
    });
    return tag("div", { class: "sep-tabs", role: "tablist", "aria-label": `${this.pane.title}: views` }, tabs);
  }

  tabKey(event, n) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = this.entries[(n + step + this.entries.length) % this.entries.length];
    this.show(next);
    next.tab.focus();
  }

  buttons() {
    const button = (label, title, action) => tag("button",
      { class: "sep-small", type: "button", title, "aria-label": `${title}: ${this.pane.title}`, onclick: action }, label);
    return tag("span", { class: "sep-tools" },
      button("copy", "copy the text", () => this.copy()),
      button("save", "save as a file", () => this.save()),
      this.large = button("⤢", "fill the view", () => this.actions.maximise(this)));
  }

  show(entry) {
    this.entry = entry;
    entry.view = entry.view || entry.make(this.focus, `${this.pane.title}, ${entry.title}`);
    if (this.own) this.own.show(entry.view);
    else refill(this.body, entry.view.element);
    for (const other of this.entries) {
      if (!other.tab) continue;
      other.tab.setAttribute("aria-selected", String(other === entry));
      other.tab.setAttribute("tabindex", other === entry ? "0" : "-1");
    }
    if (entry.view.ticks) entry.view.ticks();
    if (entry.document && !entry.opened) this.begin(entry);
  }

  /** Scroll to where a document is opened, once it has a height. */
  begin(entry) {
    entry.opened = true;
    const { body, lines } = entry.view;
    const line = lines[entry.document.start - 1];
    if (!line || entry.document.start < 2) return;
    const watch = new ResizeObserver(() => {
      if (!body.clientHeight) return;
      watch.disconnect();
      if (!body.scrollTop && !entry.view.lit().length) body.scrollTop = line.offsetTop - body.clientHeight / 8;
    });
    watch.observe(body);
  }

  /** After something was held: show where it is in this pane, in another view if need be. */
  follow() {
    if (!this.entry || this.element.hidden) return; // a hidden drawing has no places
    if (!this.entry.view.lit().length) {
      const other = this.entries.find((entry) => entry.document && entry.litLines(this.focus) > 0);
      if (other && this.entry.document) this.show(other);
    }
    this.entry.view.follow();
  }

  /** Show a line of a file; gives whether this pane has it. */
  open(file, line) {
    const entry = this.entries.find((one) => one.document && one.document.file === file);
    if (!entry || !file) return false;
    this.show(entry);
    entry.view.reveal(line);
    entry.view.go(line - 1, -1);
    entry.view.body.focus({ preventScroll: true });
    return true;
  }

  /** How far it is scrolled. */
  top() {
    const body = this.view && this.view.body;
    return body ? body.scrollTop : 0;
  }

  /** Show a view by its title as it was before. */
  back(title, top) {
    const entry = this.entries.find((one) => one.title === title);
    if (entry && entry !== this.entry) this.show(entry);
    if (this.view && this.view.body) requestAnimationFrame(() => { this.view.body.scrollTop = top; });
  }

  get view() { return this.entry && this.entry.view; }

  async copy() {
    if (!this.view) return;
    this.say(await copyText(this.view.text) ? "copied" : "not copied");
  }

  save() {
    if (!this.view) return;
    const [ending, kind] = this.entry.document ? [ENDINGS[this.entry.document.language] || "txt", "text/plain"] : this.entry.kind;
    const own = this.entry.document && this.entry.document.file ? this.entry.document.file.split("/").pop() : null;
    saveText(own && /\.\w+$/.test(own) ? own : `${this.actions.name}.${this.pane.name}.${ending}`, this.view.text, kind);
    this.say("saved");
  }

  say(words) {
    this.said.textContent = words;
    setTimeout(() => { this.said.textContent = ""; }, 1500);
  }
}

function entriesOf(pane, passes) {
  const entries = pane.documents.map((document) => ({
    title: document.title, document,
    make: (focus, label) => new CodeView(document, focus, label),
    litLines: (focus) => document.lines.filter((set, n) => n % 2 && focus.lit.has(set)).length,
  }));
  if (pane.graph) {
    entries.unshift({
      title: "drawing", kind: ["svg", "image/svg+xml"], make: (focus, label) => new DrawingView(pane.graph, focus, label),
    });
  }
  if (pane.name === "tile_program" && passes && passes.steps.length) {
    entries.push({ title: "pass by pass", kind: ["diff", "text/plain"], make: (focus, label) => new PassesView(passes, focus, label) });
  }
  return entries;
}
