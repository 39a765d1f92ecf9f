// The roofline: each machine's roofs, and a point for each mapping, predicted and measured.
import {tag, svg} from "./dom.js";
import {large, short} from "./numbers.js";
import {hueOf, letterOf, shape} from "./marks.js";

const W = 900, H = 380, LEFT = 74, RIGHT = 16, TOP = 14, BOTTOM = 46;

/** A drawing of `points` ({peak, bandwidth, intensity, predicted, measured}) by name. */
export function roofline(points, names, label) {
  const known = points.map((point, n) => ({ ...point, n, name: names[n] })).filter((point) => point.intensity);
  if (!known.length) return tag("p", { class: "sep-note" }, "no figures for a roofline");
  const scale = scales(known);
  const parts = [axes(scale), roofs(known, scale), known.map((point) => marks(point, scale))];
  const title = known.map((point) => sentence(point)).join("; ");
  return tag("div", {},
    svg("svg", { viewBox: `0 0 ${W} ${H}`, width: "100%", role: "img", "aria-label": `${label}: ${title}`, class: "sep-roofline" }, parts),
    tag("div", { class: "sep-legend" }, known.map((point) => tag("span", {}, swatch(point.n), sentence(point)))),
    tag("p", { class: "sep-note" }, "Filled: measured. Hollow: predicted. Slopes are main memory's bandwidth, flats the peak of the main instruction."));
}

function sentence(point) {
  const got = point.measured ? `, measured ${large(point.measured)}FLOP/s` : "";
  return `${letterOf(point.n)} ${point.name}: ${short(point.intensity)} FLOP/byte, predicted ${large(point.predicted)}FLOP/s${got}`;
}

function swatch(n) {
  return svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, shape(n, 7, 7, 5));
}

function scales(points) {
  const corners = points.filter((p) => p.peak && p.bandwidth).map((p) => p.peak / p.bandwidth);
  const xs = [...points.map((p) => p.intensity), ...corners];
  const ys = points.flatMap((p) => [p.predicted, p.measured, p.peak]).filter(Boolean);
  const x0 = Math.log10(Math.min(...xs)) - 0.6, x1 = Math.log10(Math.max(...xs)) + 0.6;
  const y0 = Math.log10(Math.min(...ys)) - 0.7, y1 = Math.log10(Math.max(...ys)) + 0.4;
  return {
    x0, x1, y0, y1,
    x: (value) => LEFT + ((Math.log10(value) - x0) / (x1 - x0)) * (W - LEFT - RIGHT),
    y: (value) => H - BOTTOM - ((Math.log10(value) - y0) / (y1 - y0)) * (H - TOP - BOTTOM),
  };
}

function axes(scale) {
  const parts = [];
  const text = (x, y, words, anchor) => svg("text", { x, y, "text-anchor": anchor, class: "sep-axis" }, words);
  const range = scale.x1 - scale.x0;
  for (let p = Math.ceil(scale.x0); p <= scale.x1; p += 1) {
    for (const m of range < 2.5 ? [1, 2, 5] : [1]) {
      const value = m * 10 ** p;
      if (Math.log10(value) > scale.x1) continue;
      const x = scale.x(value);
      parts.push(svg("line", { x1: x, x2: x, y1: TOP, y2: H - BOTTOM, class: "sep-grid" }), text(x, H - BOTTOM + 16, short(value), "middle"));
    }
  }
  for (let p = Math.ceil(scale.y0); p <= scale.y1; p += 1) {
    const y = scale.y(10 ** p);
    parts.push(svg("line", { x1: LEFT, x2: W - RIGHT, y1: y, y2: y, class: "sep-grid" }), text(LEFT - 8, y + 4, `${large(10 ** p)}`, "end"));
  }
  parts.push(text((LEFT + W - RIGHT) / 2, H - 10, "operations for each byte of main memory", "middle"));
  parts.push(svg("text", { x: 14, y: (TOP + H - BOTTOM) / 2, class: "sep-axis", "text-anchor": "middle", transform: `rotate(-90 14 ${(TOP + H - BOTTOM) / 2})` }, "FLOP/s"));
  return parts;
}

function roofs(points, scale) {
  const seen = new Set();
  return points.map((point) => {
    const key = `${point.peak} ${point.bandwidth}`;
    if (!point.peak || !point.bandwidth || seen.has(key)) return null;
    seen.add(key);
    const left = 10 ** scale.x0, right = 10 ** scale.x1, corner = point.peak / point.bandwidth;
    const bottom = 10 ** scale.y0;
    const from = Math.max(left, bottom / point.bandwidth);
    const dash = ["", "7 4", "2 3", "9 3 2 3"][point.n % 4];
    const line = [[from, Math.min(point.peak, from * point.bandwidth)], [Math.max(from, corner), point.peak], [right, point.peak]];
    return [svg("polyline", { points: line.map(([x, y]) => `${scale.x(x)},${scale.y(y)}`).join(" "), class: "sep-roof", style: `stroke: ${hueOf(point.n)}`, "stroke-dasharray": dash }),
      svg("text", { x: W - RIGHT - 4, y: scale.y(point.peak) - 5, "text-anchor": "end", class: "sep-axis" }, `${letterOf(point.n)}: ${large(point.peak)}FLOP/s`)];
  });
}

function marks(point, scale) {
  const x = scale.x(point.intensity);
  const parts = [];
  if (point.predicted && point.measured) {
    parts.push(svg("line", { x1: x, x2: x, y1: scale.y(point.predicted), y2: scale.y(point.measured), class: "sep-drop", style: `stroke: ${hueOf(point.n)}` }));
  }
  if (point.predicted) parts.push(shape(point.n, x, scale.y(point.predicted), 6, { class: "sep-hollow", style: `stroke: ${hueOf(point.n)}` }));
  if (point.measured) parts.push(shape(point.n, x, scale.y(point.measured), 6));
  const y = scale.y(point.measured || point.predicted);
  parts.push(svg("text", { x: x + 11, y: y + 4, class: "sep-point" }, letterOf(point.n)));
  return parts;
}
