// Where each element of a buffer lies: the tensor on one side, the memory on the other.
import {tag, refill, variable, onTheme} from "./dom.js";
import {count} from "./numbers.js";
import {sharp} from "./hues.js";
import {factList, placeList, whyBox} from "./facts.js";

const HINT = "Point at an element, or use the arrow keys, to see where it lies. Escape lets go.";
const SIDE = 368, WARP = 32, REGISTER = 4;
const LEFT = 26, TOP = 13; // where rows and columns are numbered

/** Put the layout of `data` into `root`. */
export function layoutView(root, data) {
  const why = whyBox(HINT);
  const modes = data.threads ? { thread: "thread", warp: "warp", register: "place in its thread" }
    : { order: "order in memory", ...(data.banked ? { bank: "bank" } : {}) };
  const rowwise = plainOffsets(data);
  const swizzled = !data.threads && rowwise.some((offset, n) => offset !== data.offsets[n]);
  const ways = { own: data.offsets, rows: rowwise };
  const state = { way: "own", mode: data.threads ? "thread" : data.banked ? "bank" : "order", at: null, read: "row", warp: data.threads ? warpOf(data, 0) : 0 };
  const logical = panel(`${data.name}[${data.shape.join(", ")}]`, data.rows, data.columns);
  const cells = () => (data.threads ? threadCells(data, state.warp) : memoryCells(data));
  let places = cells();
  const physical = panel(places.title, places.rows, places.columns, places.column);
  const told = tag("span", { class: "sep-note", role: "status" });
  const paint = () => {
    if (ways[state.way] !== data.offsets) {
      data = { ...data, offsets: ways[state.way] };
      places = cells();
    }
    state.asked = data.banked ? askedBanks(data, state) : null;
    drawLogical(logical, data, state, root);
    drawPhysical(physical, data, places, state, root);
    refill(told, conflictText(state));
  };
  const point = (cell) => {
    state.at = cell;
    if (data.threads && cell !== null && warpOf(data, cell) !== state.warp) {
      state.warp = warpOf(data, cell);
      places = cells();
      refill(physical.caption, places.title);
    }
    why.pin(cell === null ? null : facts(data, cell, state));
    paint();
  };
  const choice = (label, options, key) => {
    const select = tag("select", { "aria-label": label }, Object.entries(options).map(([value, words]) => tag("option", { value, selected: value === state[key] }, words)));
    select.addEventListener("change", () => { state[key] = select.value; paint(); });
    return tag("label", {}, `${label} `, select);
  };
  connect(logical, data.rows, data.columns, (r, c) => point(r * data.columns + c));
  connect(physical, places.rows, places.columns, (r, c) => { const cell = places.cell[r * places.columns + c]; if (cell >= 0) point(cell); });
  keys(logical.holder, data, () => state.at, point);
  refill(root, tag("div", { class: "sep-head" },
    tag("span", { class: "sep-title" }, data.threads ? `Fragment of ${data.name}` : `Layout ${data.layout} of ${data.name}`),
    tag("span", { class: "sep-note" }, `${data.dtype}[${data.shape.join(", ")}] in ${data.memory} of ${data.machine}${data.spread ? `: ${data.spread.text}` : ""}`), tag("span", { class: "sep-spring" }),
    choice("Colours show", modes, "mode"), data.banked && [choice("A warp reads a", { row: "row", column: "column" }, "read")],
    swizzled && choice("Lies", { own: "as it does", rows: "in plain rows" }, "way"), told),
  tag("div", { class: "sep-layout" }, logical.element, physical.element), why.box);
  paint();
  return { destroy: onTheme(paint) };
}

function panel(title, rows, columns, column = (c) => c) {
  const size = Math.max(3, Math.min(22, Math.floor((SIDE - LEFT) / Math.max(rows, columns))));
  const canvas = tag("canvas", { "aria-hidden": "true" });
  const holder = tag("div", { class: "sep-layout-grid sep-scroll", tabindex: "0", role: "application", "aria-roledescription": "grid", "aria-label": `${title}, ${rows} by ${columns}. ${HINT}` }, canvas);
  const caption = tag("figcaption", { class: "sep-mono" }, title);
  return { size, canvas, holder, caption, rows, columns, column, element: tag("figure", { class: "sep-figure-box" }, caption, holder) };
}

/** The cells of the memory in rows of all banks, or of a whole block, each with its element. */
function memoryCells(data) {
  const width = data.itemsize;
  const bytes = Math.max(width, Math.min(data.banks.count * data.banks.bytes, 128));
  const columns = Math.max(1, Math.floor(bytes / width));
  const rows = Math.min(256, Math.ceil((Math.max(...data.offsets) + width) / (columns * width)));
  const cell = new Array(rows * columns).fill(-1);
  data.offsets.forEach((offset, n) => { const at = offset / width; if (at < cell.length) cell[at] = n; });
  const column = (c) => (data.banked ? Math.floor((c * width) / data.banks.bytes) % data.banks.count : c);
  return { rows, columns, cell, column, title: `${data.memory}, ${columns * width} bytes a row${data.banked ? "; columns by bank" : ""}` };
}

/** The registers of one warp: a row a thread, a column an element that it holds. */
function threadCells(data, warp) {
  const columns = Math.max(...data.slots) + 1;
  const cell = new Array(WARP * columns).fill(-1);
  data.threads.forEach((thread, n) => { if (Math.floor(thread / WARP) === warp) cell[(thread % WARP) * columns + data.slots[n]] = n; });
  return { rows: WARP, columns, cell, title: `registers of warp ${warp}: a row a lane, a column an element` };
}

function warpOf(data, cell) { return Math.floor(data.threads[cell] / WARP); }

function bankOf(data, cell) { return Math.floor(data.offsets[cell] / data.banks.bytes) % data.banks.count; }

function colourOf(data, cell, state) {
  if (data.threads) {
    const number = state.mode === "register" ? data.slots[cell] : state.mode === "warp" ? warpOf(data, cell) : data.threads[cell];
    return `hsl(${(number * 137.5) % 360} 55% ${state.dark ? 34 : 78}%)`;
  }
  if (state.mode === "order") {
    const share = data.offsets[cell] / data.most;
    return `hsl(${210 - share * 170} 60% ${state.dark ? 24 + share * 22 : 88 - share * 28}%)`;
  }
  const chunk = Math.floor(bankOf(data, cell) / 4);
  return `hsl(${(chunk * 360) / Math.max(1, data.banks.count / 4)} 55% ${state.dark ? 34 : 80}%)`;
}

function begin(one, state, root, data) {
  const context = sharp(one.canvas, LEFT + one.columns * one.size + 1, TOP + one.rows * one.size + 1);
  state.dark = luminance(variable(root, "--sep-paper")) < 0.5;
  data.most = data.most || Math.max(1, ...data.offsets);
  context.clearRect(0, 0, one.canvas.width, one.canvas.height);
  context.font = `${Math.min(10, one.size * 0.45)}px monospace`;
  context.textBaseline = "middle";
  context.translate(LEFT, TOP);
  number(context, one, variable(root, "--sep-quiet"));
  context.textAlign = "center";
  return context;
}

/** Numbers of rows and columns, as many as have room. */
function number(context, one, ink) {
  const { font } = context;
  context.font = "9px monospace";
  context.fillStyle = ink;
  const step = (room) => [1, 2, 4, 8, 16, 32].find((n) => n * one.size >= room) || 64;
  context.textAlign = "right";
  for (let r = 0; r < one.rows; r += step(11)) context.fillText(r, -4, (r + 0.5) * one.size);
  context.textAlign = "center";
  for (let c = 0; c < one.columns; c += step(20)) context.fillText(one.column(c), (c + 0.5) * one.size, -6);
  context.font = font;
}

/** The addresses that rows one after another would have. */
function plainOffsets(data) {
  const width = data.shape.length ? data.shape[data.shape.length - 1] : 1;
  return data.offsets.map((_, n) => (Math.floor(n / data.columns) * width + (n % data.columns)) * data.itemsize);
}

function luminance(colour) {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  probe.fillStyle = colour || "#fff";
  probe.fillRect(0, 0, 1, 1);
  const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
  return (0.3 * r + 0.59 * g + 0.11 * b) / 255;
}

function square(context, one, r, c, colour, text, ink, lit) {
  const { size } = one;
  context.fillStyle = colour;
  context.fillRect(c * size, r * size, size - (size > 5 ? 1 : 0), size - (size > 5 ? 1 : 0));
  if (size >= 16 && text !== "") { context.fillStyle = ink; context.fillText(text, c * size + size / 2, r * size + size / 2); }
  if (!lit) return;
  context.strokeStyle = ink;
  context.lineWidth = 2;
  context.strokeRect(c * size, r * size, Math.max(4, size - 1), Math.max(4, size - 1));
}

function label(data, cell, state) {
  if (data.threads) return state.mode === "register" ? data.slots[cell] : state.mode === "warp" ? warpOf(data, cell) : data.threads[cell];
  return state.mode === "bank" ? bankOf(data, cell) : data.offsets[cell] / data.itemsize;
}

function drawLogical(one, data, state, root) {
  const context = begin(one, state, root, data), ink = variable(root, "--sep-ink");
  for (let n = 0; n < data.offsets.length; n += 1) {
    square(context, one, Math.floor(n / data.columns), n % data.columns, colourOf(data, n, state), label(data, n, state), ink, false);
  }
  conflicts(state, root, (cell, colour) => mark(context, one, Math.floor(cell / data.columns), cell % data.columns, colour));
  if (state.at !== null) mark(context, one, Math.floor(state.at / data.columns), state.at % data.columns, ink);
}

function drawPhysical(one, data, places, state, root) {
  const context = begin(one, state, root, data), ink = variable(root, "--sep-ink"), none = variable(root, "--sep-faint");
  let lit = -1;
  const shown = new Map();
  places.cell.forEach((cell, n) => {
    if (cell === state.at && cell >= 0) lit = n;
    if (cell >= 0) shown.set(cell, n);
    square(context, one, Math.floor(n / places.columns), n % places.columns, cell < 0 ? none : colourOf(data, cell, state), cell < 0 ? "" : label(data, cell, state), ink, false);
  });
  conflicts(state, root, (cell, colour) => {
    const n = shown.get(cell);
    if (n !== undefined) mark(context, one, Math.floor(n / places.columns), n % places.columns, colour);
  });
  if (lit >= 0) mark(context, one, Math.floor(lit / places.columns), lit % places.columns, ink);
}

function mark(context, one, r, c, ink) {
  context.strokeStyle = ink;
  context.lineWidth = 2.5;
  context.strokeRect(c * one.size - 0.5, r * one.size - 0.5, Math.max(6, one.size), Math.max(6, one.size));
}

function connect(one, rows, columns, act) {
  const move = (event) => {
    const box = one.canvas.getBoundingClientRect();
    const r = Math.floor((event.clientY - box.top - TOP) / one.size), c = Math.floor((event.clientX - box.left - LEFT) / one.size);
    if (r >= 0 && c >= 0 && r < rows && c < columns) act(r, c);
  };
  one.canvas.addEventListener("pointermove", move);
  one.canvas.addEventListener("click", move);
}

function keys(holder, data, now, point) {
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  holder.addEventListener("keydown", (event) => {
    if (event.key === "Escape") point(null);
    else if (steps[event.key]) {
      const at = now(), [dr, dc] = at === null ? [0, 0] : steps[event.key];
      const r = Math.floor((at || 0) / data.columns) + dr, c = ((at || 0) % data.columns) + dc;
      point(Math.min(data.rows - 1, Math.max(0, r)) * data.columns + Math.min(data.columns - 1, Math.max(0, c)));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

/** The banks that 32 threads ask for when they read neighbours along one axis, each with its words and elements. */
function askedBanks(data, state) {
  const many = Math.min(WARP, state.read === "row" ? data.columns : data.rows);
  const banks = new Map();
  for (let n = 0; n < many; n += 1) {
    const cell = state.read === "row" ? n : n * data.columns;
    const bank = bankOf(data, cell), word = Math.floor(data.offsets[cell] / data.banks.bytes);
    if (!banks.has(bank)) banks.set(bank, { words: new Set(), cells: [] });
    banks.get(bank).words.add(word);
    banks.get(bank).cells.push(cell);
  }
  return { many, banks: [...banks.values()] };
}

/** Outline what the threads read: in another colour where a bank has to answer more than once. */
function conflicts(state, root, outline) {
  for (const { words, cells } of state.asked ? state.asked.banks : []) {
    const colour = variable(root, words.size > 1 ? "--sep-vermilion" : "--sep-green");
    for (const cell of cells) outline(cell, colour);
  }
}

function conflictText({ asked }) {
  if (!asked) return "";
  const ways = Math.max(...asked.banks.map(({ words }) => words.size));
  const told = `${asked.many} elements in ${asked.banks.length} banks`;
  return ways > 1 ? `${ways}-way bank conflict: ${told}` : `no bank conflict: ${told}`;
}

function facts(data, cell, state) {
  const at = `${data.name}[${[...data.shape.slice(0, -2).map(() => 0), ...(data.shape.length > 1 ? [Math.floor(cell / data.columns)] : []), cell % data.columns].join(", ")}]`;
  return [factList([
    ["element", tag("b", { class: "sep-mono" }, at)],
    !data.threads && ["lies at", `byte ${count(data.offsets[cell])}, element ${count(data.offsets[cell] / data.itemsize)} of the buffer`],
    data.banked && ["bank", `${bankOf(data, cell)} of ${data.banks.count}, 16-byte chunk ${Math.floor(data.offsets[cell] / 16)}`],
    data.threads && ["thread", `${data.threads[cell]}: lane ${data.threads[cell] % WARP} of warp ${warpOf(data, cell)}${data.spread.copies > 1 ? `, and ${data.spread.copies - 1} more that hold the same` : ""}`],
    data.threads && ["register", register(data, cell)],
    data.spread && ["fragment", tag("span", { class: "sep-mono" }, data.spread.digits)],
    ["why", data.why], ["where", placeList(data.places)],
  ])];
}

function register(data, cell) {
  const slot = data.slots[cell], first = Math.floor((slot * data.itemsize) / REGISTER);
  const part = data.itemsize < REGISTER ? `, bytes ${(slot * data.itemsize) % REGISTER} to ${((slot * data.itemsize) % REGISTER) + data.itemsize - 1} of it` : "";
  return `element ${slot} of the ${data.spread.each} that it holds: 32-bit register ${first}${part}`;
}
