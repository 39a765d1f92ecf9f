// Two texts side by side: equal lines beside each other, what differs marked by sign and tint.
import {tag, refill} from "./dom.js";
import {count} from "./numbers.js";
import {letterOf} from "./marks.js";

/** Choose a stage and a mapping, see its difference from the first one's. */
export function diffView(root, data) {
  const body = tag("div");
  const state = { stage: 2, other: 0 };
  const choice = (label, options, key) => {
    const select = tag("select", { "aria-label": label }, options.map((words, n) => tag("option", { value: n, selected: n === state[key] }, words)));
    select.addEventListener("change", () => { state[key] = Number(select.value); show(); });
    return tag("label", {}, `${label} `, select);
  };
  const changed = (stage, n) => (stage.diffs[n] || []).filter((row) => "~+-".includes(row[0])).length;
  const show = () => {
    const stage = data.stages[state.stage];
    const missing = [stage.missing[0], stage.missing[state.other + 1]];
    const n = changed(stage, state.other);
    const lines = `${count(stage.lines[0])} and ${count(stage.lines[state.other + 1])} lines, ${n ? `${count(n)} rows differ` : "equal"}`;
    refill(body, tag("p", { class: "sep-note" }, lines),
      missing.map((why, k) => why && tag("p", { class: "sep-note" }, `${letterOf(k ? state.other + 1 : 0)}: not available: ${why}`)),
      n > 0 && table(stage.diffs[state.other], data.names[0], data.names[state.other + 1], state.other + 1));
  };
  refill(root, tag("div", { class: "sep-head" },
    choice("Stage", data.stages.map((stage) => stage.title), "stage"),
    choice("A beside", data.names.slice(1).map((name, n) => `${letterOf(n + 1)} ${name}`), "other")), body);
  show();
}

const SIGNS = { "=": ["", ""], "-": ["−", ""], "+": ["", "+"], "~": ["−", "+"] };

function table(rows, left, right, other) {
  const lines = rows.map(([kind, a, before, b, after]) => {
    if (kind === ".") return tag("tr", { class: "sep-skip" }, tag("td", { colspan: 4 }, `${count(a)} equal lines`));
    const [gone, come] = SIGNS[kind];
    return tag("tr", {},
      tag("td", { class: "sep-number" }, a), tag("td", { class: gone ? "sep-gone" : "" }, gone && tag("b", {}, gone), before),
      tag("td", { class: "sep-number" }, b), tag("td", { class: come ? "sep-come" : "" }, come && tag("b", {}, come), after));
  });
  return tag("div", { class: "sep-scroll sep-diff", tabindex: "0", role: "region", "aria-label": `${left} beside ${right}` },
    tag("table", {}, tag("colgroup", {}, ["44px", null, "44px", null].map((width) => tag("col", { style: width && `width: ${width}` }))), tag("thead", {}, tag("tr", {}, tag("th", { colspan: 2, scope: "colgroup" }, `A ${left}`), tag("th", { colspan: 2, scope: "colgroup" }, `${letterOf(other)} ${right}`))),
      tag("tbody", {}, lines)));
}
