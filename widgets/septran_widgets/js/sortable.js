// A table that sorts by a column when its head is pressed.
import {tag} from "./dom.js";

/** `columns` are {title, key, number, show(row)}; gives the element. */
export function sortable(rows, columns, label, choose = () => {}) {
  const body = tag("tbody");
  const state = { key: null, way: -1 };
  const heads = columns.map((column) => {
    const button = tag("button", { class: "sep-sort", type: "button" }, column.title);
    const head = tag("th", { scope: "col", class: column.number ? "sep-number" : "", "aria-sort": "none" }, button);
    button.addEventListener("click", () => {
      state.way = state.key === column.key ? -state.way : column.number ? -1 : 1;
      state.key = column.key;
      for (const [n, other] of heads.entries()) other.setAttribute("aria-sort", columns[n] !== column ? "none" : state.way > 0 ? "ascending" : "descending");
      fill();
    });
    return head;
  });
  const order = (a, b) => {
    const x = a[state.key], y = b[state.key];
    return state.way * (typeof x === "number" ? x - y : String(x).localeCompare(String(y)));
  };
  const fill = () => {
    const sorted = state.key === null ? rows : [...rows].sort(order);
    body.replaceChildren(...sorted.map((row) => {
      const element = tag("tr", { class: row.cycles === 0 ? "sep-idle" : "" }, columns.map((column) => tag("td", { class: column.number ? "sep-number" : "" }, column.show(row))));
      element.addEventListener("click", () => choose(row));
      return element;
    }));
  };
  fill();
  return tag("div", { class: "sep-scroll sep-tall", tabindex: "0", role: "region", "aria-label": label },
    tag("table", { class: "sep-table sep-sortable" }, tag("thead", {}, tag("tr", {}, heads)), body));
}
