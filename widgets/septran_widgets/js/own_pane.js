// A pane whose text one writes: it stays while the explorer around it is made anew.
import {tag} from "./dom.js";

/** The place of `text`, a TextEditor, in the explorer's grid; `name` is the pane's. */
export class OwnPane {
  constructor(name, title, text) {
    this.name = name;
    this.text = text;
    this.compiled = text.text;
    this.others = tag("div", { class: "sep-own-others", hidden: "" });
    this.body = tag("div", { class: "sep-pane-body" }, text.element, this.others);
    this.head = tag("div", { class: "sep-pane-head" }, tag("h3", {}, title));
    this.element = tag("section", { class: "sep-pane", "aria-label": title, "data-pane": name }, this.head, this.body);
    this.grid = tag("div", { class: "sep-grid", "data-shown": "1" }, this.element);
  }

  /** The text goes in the place of the document that is `compiled`, which may be older or newer than it. */
  entries(pane, found) {
    const same = found.find((entry) => entry.document && entry.document.text.trimEnd() === this.compiled.trimEnd());
    const document = same ? same.document : { title: "text", text: "", language: "yaml", lines: [], words: [], file: "" };
    const sets = document.lines.filter((_, n) => n % 2);
    const opened = this.opened;
    this.opened = true; // later texts stay where one writes
    const own = {
      title: document.title, document, opened, litLines: (focus) => sets.filter((set) => focus.lit.has(set)).length,
      make: (focus) => this.text.link(document, focus),
    };
    return [own, ...found.filter((entry) => entry !== same)];
  }

  /** Put the head of what was compiled last above the text. */
  under(head) {
    this.head.replaceWith(head);
    this.head = head;
    this.element.hidden = false;
    this.element.classList.remove("sep-large");
    this.grid.classList.remove("sep-one");
    return this.element;
  }

  show(view) {
    const own = view === this.text;
    this.text.element.hidden = !own;
    this.others.hidden = own;
    this.others.replaceChildren(...(own ? [] : [view.element]));
  }
}
