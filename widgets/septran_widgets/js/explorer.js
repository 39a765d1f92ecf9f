// The stage explorer: every stage of a compilation in linked panes.
import {replaceStatic, tag} from "./dom.js";
import {Finding} from "./finding.js";
import {Focus} from "./focus.js";
import {Pane} from "./pane.js";
import {WhyBox} from "./why_box.js";

/** Panes, the box that says why, search, and the keys that move between them. */
class Explorer {
  constructor(data) {
    this.focus = new Focus(data);
    const actions = { name: data.title.replace(/\W+/g, "_"), maximise: (pane) => this.maximise(pane) };
    this.panes = data.panes.map((pane) => new Pane(pane, this.focus, data.passes, actions));
    this.finding = new Finding(() => this.panes.filter((pane) => !pane.element.hidden));
    this.why = new WhyBox(data, this.focus, (file, line) => this.open(file, line));
    this.grid = tag("div", { class: "sep-grid" }, this.panes.map((pane) => pane.element));
    this.element = tag("div", {
      class: "sep-view sep-explorer", role: "region", "aria-label": `Stages of ${data.title}`, "data-lm-suppress-shortcuts": "true",
    }, tag("div", { class: "sep-head" }, tag("span", { class: "sep-title" }, data.title), this.choices(), tag("span", { class: "sep-spring" }), this.finding.element),
    this.grid, this.why.element);
    this.focus.onChange((now) => { if (now && now.held) this.follow(now.source); });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.arrange();
  }

  choices() {
    return tag("span", { class: "sep-choices", role: "group", "aria-label": "panes" }, this.panes.map((pane, n) => {
      pane.choice = tag("button", {
        class: "sep-button sep-choice", type: "button", "aria-pressed": "true", title: `show or hide (key ${n + 1} goes there)`,
        onclick: () => this.toggle(pane),
      }, pane.pane.title);
      return pane.choice;
    }));
  }

  toggle(pane) {
    if (this.grid.classList.contains("sep-one")) this.maximise(null);
    pane.element.hidden = !pane.element.hidden;
    pane.choice.setAttribute("aria-pressed", String(!pane.element.hidden));
    this.arrange();
  }

  arrange() {
    this.grid.dataset.shown = this.panes.filter((pane) => !pane.element.hidden).length;
  }

  maximise(pane) {
    const now = this.grid.classList.contains("sep-one") && pane && pane.element.classList.contains("sep-large");
    for (const other of this.panes) other.element.classList.remove("sep-large");
    this.grid.classList.toggle("sep-one", Boolean(pane) && !now);
    if (pane && !now) pane.element.classList.add("sep-large");
  }

  follow(source) {
    for (const pane of this.panes) if (!source || !pane.element.contains(source)) pane.follow();
  }

  open(file, line) {
    this.focus.release();
    const pane = this.panes.find((one) => one.open(file, line));
    if (pane && pane.element.hidden) this.toggle(pane);
  }

  key(event) {
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "Escape") {
      if (this.focus.held) this.focus.release();
      else this.maximise(null);
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { this.finding.input.focus(); event.preventDefault(); }
    const pane = this.panes[Number(event.key) - 1];
    if (pane && /^[1-9]$/.test(event.key)) { this.enter(pane); event.preventDefault(); }
  }

  enter(pane) {
    if (pane.element.hidden) this.toggle(pane);
    const target = pane.element.querySelector(".sep-code, [tabindex='0']");
    const inside = pane.body.querySelector(".sep-code, g.node[tabindex='0']");
    if (inside || target) (inside || target).focus();
  }
}

function render({ model, el }) {
  const explorer = new Explorer(model.get("data"));
  el.append(explorer.element);
  return replaceStatic(model.get("static_token"));
}

export default { render };
