// Rows of figures, one column a mapping: a bar for the size, and how many times the first.
import {tag} from "./dom.js";
import {quantity} from "./quantity.js";
import {marker} from "./marks.js";

/** The table of `figures` under the `names` of the mappings. */
export function figuresTable(figures, names, machines) {
  const head = tag("tr", {}, tag("td"), names.map((name, n) => tag("th", { scope: "col", style: `--share: ${80 / names.length}%` },
    marker(n), " ", name, machines[n] === name ? null : tag("div", { class: "sep-note" }, machines[n]))));
  return tag("div", { class: "sep-scroll", tabindex: "0", role: "region", "aria-label": "Figures" },
    tag("table", { class: "sep-table sep-figures" }, tag("thead", {}, head),
      tag("tbody", {}, figures.map((figure) => row(figure)))));
}

function row(figure) {
  const most = Math.max(...figure.values.map((value) => value || 0), 0);
  const present = figure.values.filter((value) => value !== null);
  const best = figure.better === "less" ? Math.min(...present) : figure.better === "more" ? Math.max(...present) : null;
  const several = best !== null && present.some((value) => !alike(value, best)); // null would count as 0
  return tag("tr", {}, tag("th", { scope: "row" }, figure.title),
    figure.values.map((value, n) => tag("td", {}, value === null ? tag("span", { class: "sep-note" }, "–") : cell(value, figure, most, n, several && alike(value, best)))));
}

/** Whether two figures read the same. */
function alike(a, b) { return Math.abs(a - b) <= 5e-4 * Math.abs(b); }

function cell(value, figure, most, n, best) {
  const first = figure.values[0];
  const factor = n && first ? value / first : null;
  return tag("div", { class: "sep-figure" },
    tag("div", { class: "sep-figure-bar", "aria-hidden": "true" }, tag("i", { style: `width: ${most ? (value / most) * 100 : 0}%` })),
    tag("span", { class: "sep-figure-value" }, quantity(value, figure.unit)),
    tag("span", { class: "sep-note sep-figure-factor" }, factor === null || alike(factor, 1) ? "" : `× ${Number(factor.toPrecision(3))}`),
    best && tag("span", { class: "sep-best", title: "best" }, "best"));
}
