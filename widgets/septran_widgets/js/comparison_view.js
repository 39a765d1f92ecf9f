// One logic under several mappings, side by side.
import {tag, refill} from "./dom.js";
import {tabs} from "./tabs.js";
import {marker, letterOf} from "./marks.js";
import {figuresTable} from "./figures_view.js";
import {diffView} from "./diff_view.js";
import {occupancyView} from "./occupancy_view.js";
import {roofline} from "./roofline_view.js";
import {timelineView} from "./timeline_view.js";

/** Put the comparison of `data` into `root`. */
export function comparisonView(root, data, onSelect = () => {}) {
  let timeline = null;
  const reasons = data.runs.map((run, n) => run.reason && run.reason !== "not measured" && `${letterOf(n)} ${data.names[n]} was not run: ${run.reason}`).filter(Boolean);
  const pairs = [
    ["Figures", (panel) => refill(panel, figuresTable(data.figures, data.names, data.machines), reasons.map((why) => tag("p", { class: "sep-note" }, why)))],
    [`Mappings (${data.differences.length})`, (panel) => refill(panel, differences(data))],
    ["Stages", (panel) => (data.names.length > 1 ? diffView(panel, data) : refill(panel, "there is only one mapping"))],
    ["Memory and bytes", (panel) => occupancyView(panel, data)],
    ["Roofline", (panel) => refill(panel, roofline(data.roofline, data.names, `Roofline of ${data.title}`))],
  ];
  if (data.timelines.length) {
    pairs.push(["Timelines", (panel) => { timeline = timelineView(panel, { timelines: data.timelines }, onSelect); }]);
  }
  refill(root, tag("div", { class: "sep-head" },
    tag("span", { class: "sep-title" }, `${data.title} under ${data.names.length} mappings`),
    tag("span", { class: "sep-names" }, data.names.map((name, n) => tag("span", {}, marker(n), " ", name)))),
  tabs(`Comparison of ${data.title}`, pairs).element);
  return { destroy: () => timeline && timeline.destroy() };
}

function differences(data) {
  if (!data.differences.length) return tag("p", { class: "sep-note" }, "all keys have the same values");
  const rows = [];
  let task = null;
  for (const one of data.differences) {
    if (one.task !== task) {
      task = one.task;
      const name = task.split("/");
      rows.push(tag("tr", { class: "sep-task" }, tag("th", { scope: "rowgroup", colspan: data.names.length + 1 },
        tag("span", { class: "sep-quiet" }, name.slice(0, -1).map((part) => `${part} / `)), name.at(-1))));
    }
    rows.push(tag("tr", {}, tag("th", { scope: "row", class: "sep-mono sep-key" }, one.key),
      one.values.map((value) => tag("td", { class: "sep-mono" }, value === "-" ? tag("span", { class: "sep-note" }, "–") : value))));
  }
  return tag("div", { class: "sep-scroll sep-tall", tabindex: "0", role: "region", "aria-label": "Keys that differ" },
    tag("table", { class: "sep-table" }, tag("thead", {}, tag("tr", {}, tag("td", {}, `${data.differences.length} keys differ`),
      data.names.map((name, n) => tag("th", { scope: "col" }, marker(n), " ", name)))), tag("tbody", {}, rows)));
}
