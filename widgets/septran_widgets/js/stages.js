// The stage explorer: every stage of a compilation in linked panes.
import {tag} from "./dom.js";
import {Finding} from "./finding.js";
import {Focus} from "./focus.js";
import {Pane} from "./pane.js";
import {WhyBox} from "./why_box.js";

const KEYS = [
  ["1 to 6", "to a pane, which it shows"], ["arrows", "lines and names of a pane"], ["Enter", "holds what is lit; Esc lets go"],
  ["/", "searches; Enter and Shift+Enter step"], ["+ and -", "larger and smaller texts"], ["?", "these keys"],
];
const SIZES = [9, 10, 11, 12, 13, 14, 16, 18, 21, 24];

/** Panes, the box that says why, search, and the keys that move between them. */
export class Explorer {
  /** `kept` is what an explorer of earlier data left by `remember`; `own` a pane that outlives it. */
  constructor(root, data, { select = () => {}, savePage = null, kept = {}, own = null } = {}) {
    this.root = root;
    this.data = data;
    this.select = select;
    this.savePage = savePage;
    this.size = kept.size ?? 3;
    this.focus = new Focus(data);
    const actions = { name: data.title.replace(/\W+/g, "_"), maximise: (pane) => this.maximise(pane) };
    this.panes = data.panes.map((pane) => new Pane(pane, this.focus, data.passes, actions, own && own.name === pane.name ? own : null));
    this.finding = new Finding(() => this.panes.filter((pane) => !pane.element.hidden));
    this.why = new WhyBox(data, this.focus, (file, line) => this.open(file, line));
    this.grid = own ? own.grid : tag("div", { class: "sep-grid" });
    around(this.grid, this.panes.map((pane) => pane.element), own && own.element);
    root.classList.add("sep-explorer");
    root.setAttribute("role", "region");
    root.setAttribute("aria-label", `Stages of ${data.title}`);
    around(root, [this.head(), this.grid, this.why.element], this.grid);
    this.focus.onChange((now) => this.changed(now));
    this.listener = (event) => this.key(event);
    root.addEventListener("keydown", this.listener);
    if (!kept.panes) for (const pane of this.panes) if (!pane.pane.shown) this.toggle(pane);
    this.restore(kept);
    this.zoom(0);
    this.arrange();
  }

  head() {
    const save = this.savePage && tag("button", {
      class: "sep-button", type: "button", "aria-label": "save page", title: "save all of this as one HTML file that opens anywhere", onclick: this.savePage,
    }, "save");
    return tag("div", { class: "sep-head" }, tag("span", { class: "sep-title" }, this.data.title),
      this.choices(), tag("span", { class: "sep-spring" }), this.finding.element, save,
      this.asked = tag("button", {
        class: "sep-button", type: "button", title: "the keys (?)", "aria-expanded": "false", onclick: () => this.help(),
      }, "?"));
  }

  /** Show the keys, or hide them. */
  help() {
    this.keys = this.keys || tag("dl", { class: "sep-facts sep-keys", role: "note", "aria-label": "keys", hidden: "" },
      KEYS.map(([key, what]) => [tag("dt", {}, tag("kbd", {}, key)), tag("dd", {}, what)]));
    if (!this.keys.isConnected) this.root.insertBefore(this.keys, this.grid);
    this.keys.hidden = !this.keys.hidden;
    this.asked.setAttribute("aria-expanded", String(!this.keys.hidden));
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

  changed(now) {
    if (now && now.held) this.follow(now.source);
    if (!now || now.held) this.select(now ? this.focus.keys() : []);
  }

  toggle(pane) {
    if (this.grid.classList.contains("sep-one")) this.maximise(null);
    pane.element.hidden = !pane.element.hidden;
    pane.choice.setAttribute("aria-pressed", String(!pane.element.hidden));
    this.arrange();
    if (this.focus.held) pane.follow();
  }

  arrange() {
    this.grid.dataset.shown = this.panes.filter((pane) => !pane.element.hidden).length;
  }

  maximise(pane) {
    const now = this.grid.classList.contains("sep-one") && pane && pane.element.classList.contains("sep-large");
    for (const other of this.panes) other.element.classList.remove("sep-large");
    this.grid.classList.toggle("sep-one", Boolean(pane) && !now);
    if (pane && !now) pane.element.classList.add("sep-large");
    for (const other of this.panes) if (other.view && other.view.lit && this.focus.held) other.follow();
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
      if (this.keys && !this.keys.hidden) this.help();
      else if (this.focus.held) this.focus.release();
      else this.maximise(null);
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const pane = this.panes[Number(event.key) - 1];
    if (event.key === "/") this.finding.input.focus();
    else if (event.key === "?") this.help();
    else if (pane && /^[1-9]$/.test(event.key)) this.enter(pane);
    else if ((event.key === "+" || event.key === "-") && !event.defaultPrevented) this.zoom(event.key === "+" ? 1 : -1);
    else return;
    event.preventDefault();
  }

  /** Larger or smaller texts. */
  zoom(step) {
    this.size = Math.min(Math.max(this.size + step, 0), SIZES.length - 1);
    this.root.style.setProperty("--sep-code-size", `${SIZES[this.size]}px`);
  }

  enter(pane) {
    if (pane.element.hidden) this.toggle(pane);
    const inside = pane.body.querySelector(".sep-code, g.node[tabindex='0']");
    if (inside) inside.focus();
  }

  /** What a later explorer of other data takes over. */
  remember() {
    const panes = this.panes.map((pane) => [pane.pane.name, {
      hidden: pane.element.hidden, entry: pane.entry && pane.entry.title, top: pane.top(),
    }]);
    return { size: this.size, panes: Object.fromEntries(panes) };
  }

  restore({ panes = {} }) {
    for (const pane of this.panes) {
      const was = panes[pane.pane.name];
      if (was && was.hidden !== pane.element.hidden) this.toggle(pane);
      if (was) pane.back(was.entry, was.top);
    }
  }

  destroy() {
    this.root.removeEventListener("keydown", this.listener);
  }
}

/** Make `children` all that `parent` has; `stays` is not moved: what is taken out of a page forgets what can be undone. */
function around(parent, children, stays) {
  for (const old of [...parent.children]) if (!stays || old !== stays) old.remove();
  const at = stays && stays.parentNode === parent ? children.indexOf(stays) : children.length;
  for (const child of children.slice(0, at)) parent.insertBefore(child, at < children.length ? stays : null);
  parent.append(...children.slice(at + 1));
}
