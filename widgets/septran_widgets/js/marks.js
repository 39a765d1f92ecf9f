// How mappings are told apart: a hue, a letter and a shape, never colour alone.
import {tag, svg} from "./dom.js";

const HUES = ["blue", "vermilion", "green", "purple", "orange", "sky", "yellow", "grey"];

/** The hue of mapping number `n`, as a style value. */
export function hueOf(n) { return `var(--sep-${HUES[n % HUES.length]})`; }

/** The letter of mapping number `n`. */
export function letterOf(n) { return String.fromCharCode(65 + (n % 26)); }

/** A small round badge with the letter. */
export function marker(n) {
  return tag("span", { class: "sep-marker", style: `--hue: ${hueOf(n)}`, "aria-hidden": "true" }, letterOf(n));
}

/** The shape of mapping number `n` in a plot, centred at (x, y). */
export function shape(n, x, y, size = 6, attributes = {}) {
  const all = { fill: hueOf(n), ...attributes };
  const points = (...pairs) => svg("polygon", { points: pairs.map(([a, b]) => `${x + a * size},${y + b * size}`).join(" "), ...all });
  switch (n % 4) {
    case 0: return svg("circle", { cx: x, cy: y, r: size, ...all });
    case 1: return points([-0.95, -0.95], [0.95, -0.95], [0.95, 0.95], [-0.95, 0.95]);
    case 2: return points([0, -1.25], [1.1, 0.85], [-1.1, 0.85]);
    default: return points([0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]);
  }
}
