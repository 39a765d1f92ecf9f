// The widget around a mapping's entries with what each costs.
import {tag, refill} from "./dom.js";
import {bytes, count, percent, large} from "./numbers.js";
import {sortable} from "./sortable.js";
import {widgetOf} from "./widget.js";

function meter(share) {
  return tag("span", { class: "sep-meter", style: `--share: ${Math.min(1, share) * 100}%` }, share ? percent(share) : "–");
}

const some = (value, words) => (value ? words(value) : "–");
const COLUMNS = [
  { title: "task", key: "task", show: (row) => tag("span", { class: "sep-mono", title: row.task }, row.task.split("/").at(-1)) },
  { title: "entry", key: "key", show: (row) => [tag("b", { class: "sep-mono" }, row.key), tag("span", { class: "sep-mono" }, ` ${row.value}`)] },
  { title: "cycles", key: "cycles", number: true, show: (row) => some(row.cycles, count) },
  { title: "of the run", key: "share", number: true, show: (row) => meter(row.share) },
  { title: "bytes", key: "bytes", number: true, show: (row) => some(row.bytes, bytes) },
  { title: "operations", key: "flops", number: true, show: (row) => some(row.flops, large) },
  { title: "of peak", key: "of_peak", number: true, show: (row) => meter(row.of_peak) },
  { title: "waited", key: "waited", number: true, show: (row) => some(row.waited, count) },
  { title: "line", key: "where", show: (row) => tag("span", { class: "sep-note sep-mono", title: row.where }, row.where ? `line ${row.where.split(":").slice(-2).join(":")}` : "default") },
];

function view(root, data, onSelect) {
  const choose = (row) => onSelect([`task:${row.task}`, ...(/:(\d+)/.test(row.where) ? [`mapping:${/:(\d+)/.exec(row.where)[1]}`] : [])]);
  const other = Object.entries(data.other).map(([where, cycles]) => `${where}: ${count(cycles)} cycles`);
  refill(root, tag("div", { class: "sep-head" }, tag("span", { class: "sep-title" }, `What each entry of the mapping costs ${data.name}`),
    tag("span", { class: "sep-note" }, `${count(data.cycles)} cycles; what runs at the same time counts each, so shares may add up to more than all`)),
  sortable(data.entries, COLUMNS, "Entries of the mapping", choose),
  other.length > 0 && tag("p", { class: "sep-note" }, `decided by no entry: ${other.join(", ")}`));
}

export default { render: widgetOf("sep-mapping-profile", view) };
