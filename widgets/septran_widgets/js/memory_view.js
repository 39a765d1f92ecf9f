// What lives where: the program's lines from top to bottom, each memory's addresses beside them.
import {tag, svg, refill} from "./dom.js";
import {bytes, count, percent} from "./numbers.js";
import {factList, placeList, whyBox} from "./facts.js";
import {roving} from "./roving.js";

const LINE = 19;
const HUES = ["sky", "orange", "green", "purple", "yellow", "blue", "vermilion", "grey"];
const HINT = "Point at a buffer to see why it is there, or at a line to see what it touches. Arrow keys go from one to the next.";

/** Put the map of `data` into `root`. */
export function memoryView(root, data, onSelect = () => {}) {
  const why = whyBox(HINT);
  const tensors = [...new Set(data.memories.flatMap((one) => one.buffers.map((b) => b.tensor || b.name)))];
  const hue = (buffer) => HUES[tensors.indexOf(buffer.tensor || buffer.name) % HUES.length];
  const state = { whole: true, pinned: null };
  const body = tag("div", { class: "sep-map" });
  const scroll = tag("div", { class: "sep-scroll sep-map-scroll" }, body);
  const toggle = tag("button", { class: "sep-button", type: "button", "aria-pressed": "false" }, "fit to what is used");
  toggle.addEventListener("click", () => {
    state.whole = !state.whole;
    toggle.setAttribute("aria-pressed", String(!state.whole));
    build();
  });
  const build = () => refill(body, ...grid(data, state, hue, why, onSelect));
  refill(root, tag("div", { class: "sep-head" },
    tag("span", { class: "sep-title" }, `Memory map of ${data.title}`),
    tag("span", { class: "sep-note" }, data.memories.length ? "addresses from left to right, the program from top to bottom" : "no buffer has a planned address"),
    tag("span", { class: "sep-spring" }), data.memories.length > 0 && toggle), scroll, why.box, others(data));
  build();
  return {};
}

function grid(data, state, hue, why, onSelect) {
  const lines = data.lines.map((line, n) => tag("div", { class: `sep-line sep-line-${line.kind}`, role: "option", "aria-selected": "false", style: `top: ${n * LINE}px` },
    tag("span", { class: "sep-line-number", "aria-hidden": "true" }, n),
    tag("span", { style: `padding-left: ${line.indent * 14}px` }, line.text)));
  const columns = data.memories.map((memory) => column(memory, data, state, hue));
  const boxes = columns.flatMap((one) => one.boxes);
  const mark = (line, buffer) => {
    lines.forEach((element, n) => {
      const lit = n === line || Boolean(buffer && buffer.uses.includes(n));
      element.classList.toggle("sep-lit", lit);
      element.setAttribute("aria-selected", String(lit));
    });
    for (const { element, buffer: other } of boxes) {
      const near = buffer ? other === buffer : line >= 0 && other.uses.includes(line);
      element.classList.toggle("sep-chosen", near);
    }
    for (const one of columns) one.at(line);
  };
  const again = () => mark(state.pinned ? state.pinned.line : -1, state.pinned ? state.pinned.buffer : null);
  const act = (facts, keys, line, buffer) => ({
    over: (item) => { if (item) mark(line, buffer); else again(); why.over(item ? facts : null); },
    choose: (item) => {
      state.pinned = item ? { line, buffer } : null;
      why.pin(item ? facts : null);
      onSelect(item ? keys : []);
      again();
    },
  });
  const lineActs = data.lines.map((line, n) => act(aboutLine(line, data, n), line.keys, n, null));
  const boxActs = boxes.map(({ buffer, memory }) => act(aboutBuffer(buffer, memory), buffer.keys, -1, buffer));
  roving(lines, { over: (item, n) => item ? lineActs[n].over(item) : lineActs[0].over(null), choose: (item, n) => (item ? lineActs[n] : lineActs[0]).choose(item) });
  roving(boxes.map((box) => box.element), { over: (item, n) => item ? boxActs[n].over(item) : boxActs[0].over(null), choose: (item, n) => (item ? boxActs[n] : boxActs[0]).choose(item) });
  const tall = data.lines.length * LINE;
  return [
    tag("div", { class: "sep-map-text" }, tag("div", { class: "sep-map-head" }, tag("span", { class: "sep-note" }, "program")),
      tag("div", { class: "sep-map-lines", role: "listbox", "aria-label": "Lines of the program", style: `height: ${tall}px` }, lines)),
    ...columns.map((one) => one.element),
  ];
}

function column(memory, data, state, hue) {
  const tall = data.lines.length * LINE;
  const whole = (state.whole && memory.capacity) || memory.used;
  const share = (value) => (value / whole) * 100;
  const boxes = memory.buffers.map((buffer) => ({ buffer, memory, element: bufferBox(buffer, share, hue) }));
  const usage = tag("span", { class: "sep-note" });
  const at = (line) => refill(usage, line >= 0 ? `${bytes(memory.live[line])} at line ${line}` : `${bytes(memory.peak)} of ${memory.capacity ? bytes(memory.capacity) : "no limit"}`);
  at(-1);
  const full = memory.capacity ? memory.peak / memory.capacity : 0;
  const profile = svg("svg", { class: "sep-live", width: 34, height: tall, viewBox: `0 0 34 ${tall}`, "aria-hidden": "true" },
    memory.live.map((live, n) => svg("rect", { x: 0, y: n * LINE, width: (live / (memory.capacity || memory.used)) * 34, height: LINE })));
  const element = tag("div", { class: "sep-map-memory" },
    tag("div", { class: "sep-map-head" }, tag("b", {}, memory.name), " ",
      memory.capacity ? tag("span", { class: "sep-busy", style: `--busy: ${full * 100}%` }, percent(full)) : "", tag("br"), usage),
    tag("div", { class: "sep-map-row" },
      tag("div", { class: "sep-map-area", role: "group", "aria-label": `Buffers of ${memory.name}`, style: `height: ${tall}px` }, boxes.map((box) => box.element)),
      profile));
  return { element, boxes, at };
}

function bufferBox(buffer, share, hue) {
  const name = hue(buffer);
  const slots = Array.from({ length: buffer.stages - 1 }, (_, n) => tag("i", { class: "sep-slot", style: `left: ${(100 * (n + 1)) / buffer.stages}%`, "aria-hidden": "true" }));
  const place = `left: ${share(buffer.offset)}%; width: ${share(buffer.size)}%; top: ${buffer.first * LINE + 1}px; height: ${(buffer.last - buffer.first + 1) * LINE - 2}px`;
  return tag("div", {
    class: "sep-box", role: "button", style: `${place}; --hue: var(--sep-${name}); --tint: var(--sep-${name}-tint)`,
    "aria-label": `${buffer.name}, ${bytes(buffer.size)} at ${count(buffer.offset)}, lines ${buffer.first} to ${buffer.last}`,
  }, slots, tag("span", { class: "sep-box-name" }, buffer.name));
}

function aboutBuffer(buffer, memory) {
  return [factList([
    ["buffer", [tag("b", {}, buffer.name), ` ${buffer.type}${buffer.layout === "row" ? "" : ` as ${buffer.layout}`}`]],
    ["lies at", `${count(buffer.offset)} to ${count(buffer.offset + buffer.size)} of ${memory.name}: ${bytes(buffer.size)}${buffer.stages > 1 ? ` in ${buffer.stages} stages` : ""}`],
    ["lives", `from line ${buffer.first} to line ${buffer.last}`],
    ["why", buffer.why],
    ["where", placeList(buffer.places)],
  ])];
}

function aboutLine(line, data, n) {
  const live = data.memories.map((memory) => `${memory.name} ${bytes(memory.live[n])}`).join(", ");
  return [factList([
    ["line", tag("span", { class: "sep-mono" }, `${n}: ${line.text}`)], ["in use", live],
    ["why", line.why], ["where", placeList(line.places)],
  ])];
}

function others(data) {
  if (!data.elsewhere.length) return null;
  return tag("div", { class: "sep-note sep-more" }, "without a planned address: ",
    data.elsewhere.map((one) => `${one.name} (${bytes(one.size)} in ${one.memory})`).join(", "));
}
