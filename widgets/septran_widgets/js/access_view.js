// What one block reads and writes of each tensor, step by step.
import {tag, refill, variable, onTheme, onEntered} from "./dom.js";
import {sharp} from "./hues.js";
import {factList, placeList} from "./facts.js";
import {count} from "./numbers.js";

const MOST = 170, DELAY = 350;

/** Put the accesses of `data` into `root`; another block is asked of the kernel. */
export function accessView(root, data, onSelect = () => {}, model = null) {
  const state = { step: 0, timer: null };
  const pictures = data.tensors.map((tensor, n) => picture(tensor, n));
  const why = tag("div", { class: "sep-why", role: "status", "aria-live": "polite" });
  const slider = tag("input", { type: "range", min: 0, max: Math.max(0, data.steps.length - 1), value: 0, class: "sep-slider", "aria-label": "Step" });
  const at = tag("span", { class: "sep-note sep-at" });
  const show = (step) => {
    state.step = Math.min(Math.max(0, step), data.steps.length - 1);
    slider.value = state.step;
    const now = data.steps[state.step];
    if (!now) { refill(why, tag("span", { class: "sep-note" }, "this block does nothing")); return; }
    slider.setAttribute("aria-valuetext", `${state.step + 1} of ${data.steps.length}: ${now.text}`);
    refill(at, `${state.step + 1} of ${count(data.total)}`);
    pictures.forEach((one) => paint(one, data, state.step, root));
    refill(why, facts(now));
    onSelect([`node:${now.node}`, ...now.keys]);
  };
  const play = tag("button", { class: "sep-button", type: "button", "aria-pressed": "false" }, "play");
  const stop = () => { clearInterval(state.timer); state.timer = null; play.textContent = "play"; play.setAttribute("aria-pressed", "false"); };
  play.addEventListener("click", () => {
    if (state.timer) { stop(); return; }
    play.textContent = "pause";
    play.setAttribute("aria-pressed", "true");
    if (state.step >= data.steps.length - 1) show(0);
    state.timer = setInterval(() => { if (state.step >= data.steps.length - 1) stop(); else show(state.step + 1); }, DELAY);
  });
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  const move = (words, name, by) => tag("button", { class: "sep-button", type: "button", "aria-label": name, onclick: () => { stop(); show(state.step + by); } }, words);
  refill(root, tag("div", { class: "sep-head" }, tag("span", { class: "sep-title" }, `What one block of ${data.title} touches`), tag("span", { class: "sep-spring" }), blockChoice(data, model)),
    tag("div", { class: "sep-steps" }, move("‹", "Step back", -1), play, move("›", "Step on", 1), slider, at),
    group("tensors of the caller", pictures.filter((one) => one.tensor.param)),
    group("buffers", pictures.filter((one) => !one.tensor.param)), legend(), why);
  show(0);
  const theme = onTheme(() => show(state.step));
  return { destroy: () => { stop(); theme(); } };
}

function blockChoice(data, model) {
  const now = { ...data.block };
  return Object.entries(data.loops).map(([name, extent]) => {
    const input = tag("input", { type: "number", min: 0, max: extent - 1, value: data.block[name], "aria-label": `${name} of ${extent}`, disabled: !model || extent < 2 });
    onEntered(input, () => {
      now[name] = Math.min(extent - 1, Math.max(0, Number(input.value) || 0));
      model.set("asked", { ...now });
      model.save_changes();
    });
    return tag("label", { class: "sep-mono" }, `${name} `, input, tag("span", { class: "sep-note" }, ` of ${extent}`));
  });
}

function group(title, pictures) {
  if (!pictures.length) return null;
  return tag("div", { class: "sep-access" }, tag("div", { class: "sep-note" }, title), tag("div", { class: "sep-access-row" }, pictures.map((one) => one.element)));
}

function legend() {
  return tag("div", { class: "sep-legend" },
    [["sep-touch-read", "read now"], ["sep-touch-write", "written now (hatched)"], ["sep-touch-past", "touched before"]]
      .map(([name, words]) => tag("span", {}, tag("i", { class: `sep-touch ${name}`, "aria-hidden": "true" }), words)));
}

function picture(tensor, number) {
  const rank = tensor.shape.length;
  const rows = rank > 1 ? tensor.shape[rank - 2] : 1, columns = rank ? tensor.shape[rank - 1] : 1;
  const scale = (tensor.param ? MOST : MOST * 0.62) / Math.max(rows, columns, 1);
  const size = { width: Math.max(12, Math.round(columns * scale)), height: Math.max(12, Math.round(rows * scale)), rows, columns };
  const canvases = Array.from({ length: tensor.stages }, () => tag("canvas", { "aria-hidden": "true" }));
  const where = tag("div", { class: "sep-note sep-mono sep-where" });
  const element = tag("div", { class: "sep-access-one" },
    tag("div", {}, tag("b", { class: "sep-mono" }, tensor.name), " ", tag("span", { class: "sep-note" }, `${tensor.memory} ${tensor.shape.join("×")}`)),
    tag("div", { class: "sep-stages" }, canvases), where);
  return { tensor, number, rank, size, canvases, where, element };
}

function paint(one, data, step, root) {
  const { width, height } = one.size;
  const colour = (name) => variable(root, `--sep-${name}`);
  let words = "";
  one.canvases.forEach((canvas, stage) => {
    const context = sharp(canvas, width + 1, height + 1);
    context.fillStyle = colour("raised");
    context.fillRect(0, 0, width, height);
    const outer = current(one, data, step);
    for (let n = one.tensor.param ? 0 : step; n <= step; n += 1) {
      for (const [tensor, way, s, low, high] of data.steps[n].boxes) {
        if (tensor !== one.number || s !== stage || !sameOuter(low, outer, one.rank)) continue;
        fillBox(context, one, low, high, n === step ? way : "past", colour);
        if (n === step) words = `${low.map((a, k) => (high[k] - a === 1 ? a : `${a}:${high[k]}`)).join(", ")}${one.tensor.stages > 1 ? ` @${s}` : ""}`;
      }
    }
    context.strokeStyle = colour("line");
    context.lineWidth = 1;
    context.strokeRect(0.5, 0.5, width - 1, height - 1);
  });
  one.where.textContent = words ? `[${words}]` : "\u00a0";
  one.element.classList.toggle("sep-now", Boolean(words));
}

/** The coordinates along the outer axes that are shown: those of the latest access. */
function current(one, data, step) {
  for (let n = step; n >= 0; n -= 1) {
    const box = data.steps[n].boxes.find(([tensor]) => tensor === one.number);
    if (box) return box[3];
  }
  return null;
}

function sameOuter(low, outer, rank) {
  return !outer || low.slice(0, Math.max(0, rank - 2)).every((value, n) => value === outer[n]);
}

function fillBox(context, one, low, high, way, colour) {
  const { width, height, rows, columns } = one.size, rank = one.rank;
  const [r0, r1] = rank > 1 ? [low[rank - 2], high[rank - 2]] : [0, 1];
  const [c0, c1] = rank ? [low[rank - 1], high[rank - 1]] : [0, 1];
  const x = (c0 / columns) * width, y = (r0 / rows) * height;
  const w = Math.max(2, ((c1 - c0) / columns) * width), h = Math.max(2, ((r1 - r0) / rows) * height);
  context.fillStyle = colour(way === "past" ? "sky-tint" : way === "r" ? "sky" : "vermilion-tint");
  context.fillRect(x, y, w, h);
  if (way !== "w") return;
  context.save();
  context.beginPath();
  context.rect(x, y, w, h);
  context.clip();
  context.strokeStyle = colour("vermilion");
  context.lineWidth = 1.6;
  for (let d = -h; d < w; d += 6) { context.beginPath(); context.moveTo(x + d, y + h); context.lineTo(x + d + h, y); context.stroke(); }
  context.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
  context.restore();
}

function facts(step) {
  const loops = Object.entries(step.loops).map(([name, value]) => `${name}=${value}`).join(" ");
  return factList([
    ["step", tag("span", { class: "sep-mono" }, step.text)], ["indices", tag("span", { class: "sep-mono" }, loops)],
    ["why", step.why], ["where", placeList(step.places)],
  ]);
}
