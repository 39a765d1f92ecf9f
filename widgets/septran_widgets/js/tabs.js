// Tabs: one panel at a time, built when it is first shown.
import {tag, refill, unique} from "./dom.js";
import {roving} from "./roving.js";

/** Tabs from [title, build(panel)] pairs; gives {element, show(n)}. */
export function tabs(label, pairs) {
  const id = unique("tabs");
  const built = new Set();
  const panels = pairs.map((_, n) => tag("div", { id: `${id}-panel-${n}`, role: "tabpanel", "aria-labelledby": `${id}-tab-${n}`, tabindex: "0", hidden: true, class: "sep-panel" }));
  const buttons = pairs.map(([title], n) => tag("button", { id: `${id}-tab-${n}`, type: "button", role: "tab", class: "sep-button sep-tab", "aria-controls": `${id}-panel-${n}`, "aria-selected": "false" }, title));
  const show = (n) => {
    panels.forEach((panel, k) => { panel.hidden = k !== n; });
    buttons.forEach((button, k) => button.setAttribute("aria-selected", String(k === n)));
    if (!built.has(n)) {
      built.add(n);
      pairs[n][1](panels[n]);
    }
  };
  roving(buttons, { over: () => {}, choose: (item, n) => { if (item) show(n); } });
  buttons.forEach((button, n) => button.addEventListener("focus", () => show(n)));
  const element = tag("div", {}, tag("div", { role: "tablist", "aria-label": label, class: "sep-tabs" }, buttons), panels);
  show(0);
  return { element, show, refill };
}
