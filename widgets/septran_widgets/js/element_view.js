// One element on its way: where it is in its tensor, and each step from memory to memory.
import {tag, svg, refill, onTheme} from "./dom.js";
import {count} from "./numbers.js";
import {factList, placeList, whyBox} from "./facts.js";
import {roving} from "./roving.js";
import {tensorPicker} from "./tensor_picker.js";

const ROW = 44, COLUMN = 108;
const KINDS = { copy: "copied", reads: "read", writes: "computed" };

/** Put the journey of `data` into `root`; clicking an element asks the kernel for another. */
export function elementView(root, data, onSelect = () => {}, model = null) {
  const why = whyBox("Click a step, or use the arrow keys, to see why it is there. Click into a tensor to follow another element.");
  const ask = (tensor, at) => {
    if (!model) return;
    model.set("asked", { tensor, at });
    model.save_changes();
  };
  const name = `${data.tensor}[${data.at.join(", ")}]`;
  const copies = data.steps.filter((step) => step.kind === "copy").length;
  const way = data.output ? "comes from" : "goes to";
  const steps = list(data, why, onSelect);
  const pickers = data.tensors.map((tensor) => tensorPicker(tensor, tensor.name === data.tensor ? data : null, ask));
  refill(root,
    tag("div", { class: "sep-head" },
      tag("span", { class: "sep-title" }, `Where ${name} ${way}`),
      tag("span", { class: "sep-note" }, `${data.title} · ${count(copies)} ${copies === 1 ? "copy" : "copies"} in ${count(data.total)} steps${data.total > data.steps.length ? `, ${data.steps.length} shown` : ""}`)),
    tag("div", { class: "sep-element" },
      tag("div", { class: "sep-pickers" }, pickers.map((one) => one.element)),
      tag("div", { class: "sep-way" }, path(data.tasks), steps, why.box)));
  return { destroy: onTheme(() => pickers.forEach((one) => one.draw())) };
}

function path(tasks) {
  return tag("div", { class: "sep-note sep-tasks" }, "tasks: ", tasks.map((task, n) => [n ? " → " : "", tag("span", { class: "sep-mono", title: task }, task.split("/").at(-1))]));
}

function list(data, why, onSelect) {
  const wide = Math.max(1, data.memories.length) * COLUMN;
  const head = tag("div", { class: "sep-way-head" },
    tag("div", { class: "sep-way-memories", style: `width: ${wide}px` }, data.memories.map((memory) => tag("b", { style: `width: ${COLUMN}px` }, memory))),
    tag("span", { class: "sep-note" }, data.output ? "from the computation to the result" : "from the tensor onwards"));
  const rows = data.steps.map((step, n) => row(step, n, data.memories, wide));
  const mark = (pinned) => rows.forEach((item, n) => {
    item.classList.toggle("sep-lit", n === pinned);
    item.setAttribute("aria-selected", String(n === pinned));
  });
  let pinned = -1;
  roving(rows, {
    over: (item, n) => { mark(item ? n : pinned); why.over(item && facts(data.steps[n])); },
    choose: (item, n) => {
      pinned = item ? n : -1;
      mark(pinned);
      why.pin(item && facts(data.steps[n]));
      onSelect(item ? [`node:${data.steps[n].node}`, ...data.steps[n].keys] : []);
    },
  });
  if (!rows.length) return tag("p", { class: "sep-note" }, "no node of the program touches it");
  return tag("div", { class: "sep-scroll sep-way-scroll" }, tag("div", { class: "sep-way-body" }, head,
    tag("div", { role: "listbox", "aria-label": "Steps" }, rows)));
}

function row(step, n, memories, wide) {
  const x = (place) => memories.indexOf(place.memory) * COLUMN + 24;
  const lines = memories.map((_, k) => svg("line", { x1: k * COLUMN + 24, x2: k * COLUMN + 24, y1: 0, y2: ROW, class: "sep-lifeline" }));
  const drawing = svg("svg", { width: wide, height: ROW, viewBox: `0 0 ${wide} ${ROW}`, "aria-hidden": "true", class: "sep-way-picture" }, lines, arrow(step, x));
  const loops = Object.entries(step.loops).map(([name, value]) => `${name}=${value}`).join(" ");
  return tag("div", { class: `sep-step sep-step-${step.kind}`, role: "option", "aria-selected": "false" }, drawing,
    tag("div", { class: "sep-step-words" },
      tag("div", { class: "sep-mono" }, sentence(step)),
      tag("div", { class: "sep-note" }, `${n + 1} · ${KINDS[step.kind]} by ${step.by}`, loops ? ` · ${loops}` : "", step.role ? ` · ${step.role}` : "")));
}

function arrow(step, x) {
  const y = ROW / 2 - 2;
  const address = (place, dx = 5) => svg("text", { x: x(place) + dx, y: y + 17, class: "sep-address" }, count(place.address));
  if (step.kind !== "copy") {
    const place = step.target || step.source;
    const hollow = step.kind === "reads";
    return [svg("rect", { x: x(place) - 7, y: y - 7, width: 14, height: 14, rx: 3, class: hollow ? "sep-use sep-use-hollow" : "sep-use" }), address(place, 11)];
  }
  const a = x(step.source), b = x(step.target);
  if (a === b) {
    return [svg("path", { d: `M ${a} ${y - 9} C ${a + 34} ${y - 9}, ${a + 34} ${y + 9}, ${a + 4} ${y + 9}`, class: "sep-arrow" }), address(step.target)];
  }
  const tip = b > a ? -6 : 6;
  return [svg("circle", { cx: a, cy: y, r: 4, class: "sep-dot" }),
    svg("line", { x1: a, x2: b + tip, y1: y, y2: y, class: "sep-arrow" }),
    svg("polygon", { points: `${b},${y} ${b + 1.6 * tip},${y - 5} ${b + 1.6 * tip},${y + 5}`, class: "sep-dot" }),
    address(step.source), address(step.target)];
}

function sentence(step) {
  if (step.kind === "copy") return `${step.source.text} → ${step.target.text}`;
  if (step.kind === "reads") return `${step.by} reads ${step.source.text}`;
  return [`${step.target.text} ← `, step.operands.map((one) => one.home || one.text).join(", ") || "a constant"];
}

function facts(step) {
  const ends = [step.source, step.target].filter(Boolean).map((place) => `${place.text} at byte ${count(place.address)} of ${place.memory}`);
  return [factList([
    ["line", tag("span", { class: "sep-mono" }, `${step.node}: ${step.text}`)],
    ["element", ends.join(" → ")],
    ["reads", step.operands.map((one) => (one.home && one.home !== one.text ? `${one.text}, copied from ${one.home}` : one.text)).join("; ")],
    ["who", [step.unit, `task ${step.task}`, step.channel && `channel ${step.channel}`].filter(Boolean).join(" · ")],
    ["why", step.rule], ["where", placeList(step.places)],
  ])];
}
