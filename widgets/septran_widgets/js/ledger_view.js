// The ledger as a graph: memories in columns, a band for each copy, why on hover.
import {tag, svg, refill, unique} from "./dom.js";
import {bytes, count, percent, short} from "./numbers.js";
import {factList, placeList, whyBox} from "./facts.js";
import {roving} from "./roving.js";
import {sankey, bandPath} from "./sankey.js";

const STATES = { hidden: "hidden behind computation", exposed: "exposed: something waits for it", removed: "removed: not copied at all" };
const HINT = "Point at a band, or use the arrow keys, to see what is copied and why.";

/** Put the graph of `data` into `root`. */
export function ledgerView(root, data, onSelect = () => {}) {
  const why = whyBox(HINT);
  const holder = tag("div", { class: "sep-scroll" });
  const table = rowsOf(data);
  refill(root, head(data), holder, why.box, table.element);
  let width = 0, pinned = -1;
  const build = () => {
    const wide = Math.max(560, holder.clientWidth || 860);
    if (Math.abs(wide - width) < 4) return;
    width = wide;
    const drawing = draw(data, width);
    refill(holder, drawing.element);
    const mark = (n) => {
      drawing.bands.forEach((path, k) => path.classList.toggle("sep-dim", n >= 0 && k !== n));
      table.rows.forEach((row, k) => row.classList.toggle("sep-lit", k === n));
    };
    roving(drawing.bands, {
      over: (item, n) => { mark(item ? n : pinned); why.over(item && facts(drawing.shown[n])); },
      choose: (item, n) => {
        pinned = item && n !== pinned ? n : -1;
        mark(pinned);
        drawing.bands.forEach((path, k) => path.setAttribute("aria-pressed", String(k === pinned)));
        why.pin(pinned < 0 ? null : facts(drawing.shown[pinned]));
        onSelect(pinned < 0 ? [] : drawing.shown[pinned].keys);
      },
    });
  };
  const size = new ResizeObserver(build);
  size.observe(holder);
  build();
  return { destroy: () => size.disconnect() };
}

function head(data) {
  const least = `${bytes(data.traffic)} of ${data.main} traffic, ${short(data.ratio)} times the least there can be (${bytes(data.least)})`;
  const states = [...new Set(data.bands.map((band) => band.state))];
  return tag("div", {},
    tag("div", { class: "sep-head" },
      tag("span", { class: "sep-title" }, `Data movement of ${data.title}`),
      tag("span", { class: "sep-note" }, least)),
    tag("div", { class: "sep-legend", role: "group", "aria-label": "Legend" },
      states.map((state) => tag("span", {}, tag("i", { class: `sep-flow sep-flow-${state}`, "aria-hidden": "true" }), STATES[state])),
      data.in_place.length > 0 && tag("span", {}, `in place, never copied: ${data.in_place.join(", ")}`)));
}

function draw(data, width) {
  const { nodes, bands, height } = sankey(data, width);
  const hatch = unique("hatch");
  const pattern = svg("pattern", { id: hatch, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 7, height: 7, class: "sep-hatch-base" }), svg("rect", { width: 2.2, height: 7, class: "sep-hatch-line" }));
  const paths = bands.map((band) => svg("path", {
    d: bandPath(band), class: `sep-band sep-band-${band.state}`, role: "button", "aria-pressed": "false",
    fill: band.state === "exposed" ? `url(#${hatch})` : undefined, "aria-label": sentence(band),
  }));
  const connectors = link(nodes);
  const element = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Copies of ${data.title}` },
    svg("defs", {}, pattern), connectors, paths, nodes.map(box), bands.map(labelOf));
  return { element, bands: paths, shown: bands };
}

/** Thin lines from the memories that are computed with to the computation and on. */
function link(nodes) {
  const middle = nodes.find((one) => one.way === "compute");
  const y = middle.y + middle.height / 2;
  const ends = nodes.filter((one) => (one.way === "in" && !one.out.length) || (one.way === "out" && !one.into.length));
  return ends.map((one) => {
    const x = one.way === "in" ? one.x + one.width : one.x;
    const to = one.way === "in" ? middle.x : middle.x + middle.width;
    return svg("path", { class: "sep-connector", d: `M ${x} ${one.y + one.height / 2} C ${(x + to) / 2} ${one.y + one.height / 2}, ${(x + to) / 2} ${y}, ${to} ${y}` });
  });
}

function box(one) {
  const anchor = one.x < 30 ? "start" : one.x > 400 && one.way === "out" && !one.out.length ? "end" : "middle";
  const x = anchor === "start" ? one.x : anchor === "end" ? one.x + one.width : one.x + one.width / 2;
  return svg("g", { "aria-hidden": "true" },
    svg("rect", { x: one.x, y: one.y, width: one.width, height: one.height, rx: 3, class: `sep-node sep-node-${one.way}` }),
    svg("text", { x, y: one.y - 7, "text-anchor": anchor, class: "sep-node-name" }, one.name));
}

function labelOf(band) {
  if (band.thick < 13) return null;
  const x = band.start.x + (band.end.x - band.start.x) * 0.08 + 6;
  return svg("text", { x, y: band.start.y + band.thick / 2 + 4, class: "sep-band-name", "aria-hidden": "true" },
    `${band.tensor}  ${bytes(band.total)}`);
}

function sentence(band) {
  const size = band.state === "removed" ? `saves ${bytes(band.saved)}` : bytes(band.total);
  return `${band.tensor}, ${band.source} to ${band.target}, ${size}, ${band.state}`;
}

function facts(band) {
  const size = band.state === "removed"
    ? `${count(band.trips)} x ${bytes(band.bytes)} = ${bytes(band.saved)} not copied`
    : `${count(band.trips)} x ${bytes(band.bytes)} = ${bytes(band.total)}`;
  return [factList([
    ["copy", [tag("b", {}, band.tensor), ` ${band.source} → ${band.target} by ${band.engine}`]],
    ["how much", band.copies > 1 ? `${size}, by ${band.copies} copies of the program` : size],
    ["state", STATES[band.state] + (band.by ? `, by ${band.by}` : "")],
    ["why", band.reason],
    ["where", placeList(band.places)],
  ])];
}

function rowsOf(data) {
  const all = data.bands.reduce((sum, band) => sum + band.total, 0);
  const rows = data.bands.map((band) => tag("tr", {},
    tag("td", {}, tag("b", {}, band.tensor)), tag("td", { class: "sep-mono" }, `${band.source} → ${band.target}`),
    tag("td", { class: "sep-number" }, bytes(band.bytes)), tag("td", { class: "sep-number" }, count(band.trips)),
    tag("td", { class: "sep-number" }, band.state === "removed" ? `(${bytes(band.saved)})` : bytes(band.total)),
    tag("td", { class: "sep-number" }, all ? percent(band.total / all) : ""),
    tag("td", {}, band.state), tag("td", {}, band.reason)));
  const heads = ["tensor", "edge", "bytes", "trips", "in all", "share", "state", "why"];
  const element = tag("details", { class: "sep-more" }, tag("summary", {}, `All ${data.bands.length} rows`),
    tag("div", { class: "sep-scroll", tabindex: "0", role: "region", "aria-label": "Rows of the ledger" },
      tag("table", { class: "sep-table" },
        tag("thead", {}, tag("tr", {}, heads.map((name) => tag("th", { scope: "col" }, name)))),
        tag("tbody", {}, rows))));
  return { element, rows };
}
