// Search in all panes: lines that hold a text, one after another.
import {tag} from "./dom.js";

/** `panes()` gives the panes that are shown. */
export class Finding {
  constructor(panes) {
    this.panes = panes;
    this.hits = [];
    this.at = -1;
    this.input = tag("input", { type: "text", class: "sep-search", placeholder: "search", "aria-label": "search in all panes", oninput: () => this.find() });
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.count = tag("span", { class: "sep-note sep-hits", "aria-live": "polite" });
    this.element = tag("span", { class: "sep-finding" }, this.input, this.count);
  }

  key(event) {
    if (event.key === "Enter") { this.step(event.shiftKey ? -1 : 1); event.preventDefault(); }
    if (event.key === "Escape" && this.input.value) { this.input.value = ""; this.find(); event.stopPropagation(); }
  }

  find() {
    const wanted = this.input.value.toLowerCase();
    for (const { line } of this.hits) line.classList.remove("sep-hit", "sep-hit-now");
    this.hits = [];
    this.at = -1;
    for (const pane of wanted ? this.panes() : []) {
      const view = pane.view;
      if (!view || !view.lines) continue;
      view.lines.forEach((line, n) => {
        if (line.textContent.toLowerCase().includes(wanted)) this.hits.push({ view, line, n });
      });
    }
    for (const { line } of this.hits) line.classList.add("sep-hit");
    this.say();
    if (this.hits.length) this.step(1);
  }

  step(by) {
    if (!this.hits.length) return;
    if (this.at >= 0) this.hits[this.at].line.classList.remove("sep-hit-now");
    this.at = (this.at + by + this.hits.length) % this.hits.length;
    const { view, line, n } = this.hits[this.at];
    line.classList.add("sep-hit-now");
    view.reveal(n + 1);
    view.go(n, -1);
    this.say();
  }

  say() {
    const total = this.hits.length;
    this.count.textContent = !this.input.value ? "" : total ? `${this.at + 1} of ${total}` : "not found";
  }
}
