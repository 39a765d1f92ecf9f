// What each mapping uses of each memory, and the bytes that pass each memory edge.
import {tag, refill} from "./dom.js";
import {bytes, percent} from "./numbers.js";
import {marker, hueOf} from "./marks.js";

/** Bars by memory and by edge, one for each mapping. */
export function occupancyView(root, data) {
  refill(root,
    tag("h3", { class: "sep-h" }, "Memory at its fullest"),
    data.memories.length ? data.memories.map((memory) => group(memory.name, memory.used.map((used, n) => used && held(used, n))))
      : tag("p", { class: "sep-note" }, "no buffer has a planned address"),
    tag("h3", { class: "sep-h" }, "Bytes along each memory edge"),
    edges(data.edges));
}

function group(title, rows) {
  const kept = rows.filter(Boolean);
  return kept.length ? tag("div", { class: "sep-group" }, tag("div", { class: "sep-mono sep-group-name" }, title), tag("div", { class: "sep-group-rows" }, kept)) : null;
}

function held(used, n) {
  const whole = used.capacity || Math.max(...used.buffers.map(([, offset, size]) => offset + size));
  const boxes = used.buffers.map(([name, offset, size]) => tag("i", {
    class: "sep-piece", style: `left: ${(offset / whole) * 100}%; width: ${(size / whole) * 100}%; --hue: ${hueOf(n)}`, title: `${name}: ${bytes(size)}`,
  }, size / whole > 0.12 ? name : ""));
  const words = used.capacity ? `${bytes(used.peak)} of ${bytes(used.capacity)} (${percent(used.peak / used.capacity)})` : bytes(used.peak);
  return tag("div", { class: "sep-bar-row" }, marker(n), tag("div", { class: "sep-track" }, boxes), tag("span", { class: "sep-bar-words" }, words));
}

function edges(found) {
  const most = Math.max(1, ...found.flatMap((edge) => edge.bytes.map((value) => value || 0)));
  return found.map((edge) => group(edge.name.replace("->", "→"), edge.bytes.map((value, n) => value !== null && tag("div", { class: "sep-bar-row" },
    marker(n), tag("div", { class: "sep-track sep-track-thin" }, tag("i", { class: "sep-piece", style: `left: 0; width: ${(value / most) * 100}%; --hue: ${hueOf(n)}` })),
    tag("span", { class: "sep-bar-words" }, bytes(value))))));
}
