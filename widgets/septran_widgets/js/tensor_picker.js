// A tensor as a rectangle in which an element can be chosen, by pointer or by numbers.
import {tag, variable, onEntered} from "./dom.js";
import {sharp} from "./hues.js";

const MOST = 104;

/** The picture of `tensor` and what draws it; `shown` has the element (`at`) and its `tile` where it is in this one. */
export function tensorPicker(tensor, shown, ask) {
  const rank = tensor.shape.length;
  const rows = rank > 1 ? tensor.shape[rank - 2] : 1, columns = rank ? tensor.shape[rank - 1] : 1;
  const scale = MOST / Math.max(rows, columns, 1);
  const width = Math.max(14, Math.round(columns * scale)), height = Math.max(14, Math.round(rows * scale));
  const canvas = tag("canvas", { class: "sep-picker-canvas", "aria-hidden": "true" });
  const inputs = tensor.shape.map((extent, n) => tag("input", {
    type: "number", min: 0, max: extent - 1, value: shown ? shown.at[n] : 0, "aria-label": `${tensor.name}, index ${n} of ${extent}`,
  }));
  const now = () => inputs.map((input, n) => Math.min(Math.max(0, Number(input.value) || 0), tensor.shape[n] - 1));
  const go = () => ask(tensor.name, now());
  for (const input of inputs) onEntered(input, go);
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const at = now();
    if (rank > 0) at[rank - 1] = Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns));
    if (rank > 1) at[rank - 2] = Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows));
    ask(tensor.name, at);
  });
  const element = tag("div", { class: shown ? "sep-picker sep-picker-shown" : "sep-picker" },
    tag("div", {}, tag("b", { class: "sep-mono" }, tensor.name), " ", tag("span", { class: "sep-note" }, `${tensor.dtype}[${tensor.shape.join(", ")}]${tensor.output ? " out" : ""}`)),
    canvas, tag("div", { class: "sep-picker-at" }, "[", inputs.map((input, n) => [n ? ", " : "", input]), "]"));
  const draw = () => paint(canvas, element, { width, height, rows, columns, rank, shown });
  requestAnimationFrame(draw);
  return { element, draw };
}

function paint(canvas, element, { width, height, rows, columns, rank, shown }) {
  const context = sharp(canvas, width, height);
  context.fillStyle = variable(element, "--sep-raised") || "#eee";
  context.fillRect(0, 0, width, height);
  context.strokeStyle = variable(element, "--sep-line") || "#999";
  context.strokeRect(0.5, 0.5, width - 1, height - 1);
  if (!shown) return;
  const x = (column) => (column / columns) * width, y = (row) => (row / rows) * height;
  if (shown.tile) {
    const { low, high } = shown.tile;
    const top = rank > 1 ? low[rank - 2] : 0, bottom = rank > 1 ? high[rank - 2] : 1;
    context.fillStyle = variable(element, "--sep-sky-tint");
    context.fillRect(x(low[rank - 1]), y(top), x(high[rank - 1] - low[rank - 1]), y(bottom - top));
    context.strokeStyle = variable(element, "--sep-sky");
    context.strokeRect(x(low[rank - 1]) + 0.5, y(top) + 0.5, x(high[rank - 1] - low[rank - 1]) - 1, y(bottom - top) - 1);
  }
  const row = rank > 1 ? shown.at[rank - 2] : 0, column = rank ? shown.at[rank - 1] : 0;
  context.fillStyle = variable(element, "--sep-vermilion");
  context.globalAlpha = 0.35;
  context.fillRect(0, y(row), width, Math.max(1, y(1)));
  context.fillRect(x(column), 0, Math.max(1, x(1)), height);
  context.globalAlpha = 1;
  context.beginPath();
  context.arc(x(column + 0.5), y(row + 0.5), 4, 0, 7);
  context.fill();
}
