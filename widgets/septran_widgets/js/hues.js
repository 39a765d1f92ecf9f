// Fills for canvases: a hue and a pattern, so that colour is never the only sign.
import {variable} from "./dom.js";

const SIZE = 8;
const MARKS = {
  hatched: (c) => { for (const x of [-8, 0, 8]) { c.moveTo(x, 8); c.lineTo(x + 8, 0); } },
  crossed: (c) => { c.moveTo(0, 4); c.lineTo(8, 4); c.moveTo(4, 0); c.lineTo(4, 8); },
  dotted: (c) => { c.moveTo(3.2, 4); c.lineTo(4.8, 4); },
};

/** The fill of a kind of bar; `element` is where style variables are read. */
export function fillOf(context, element, hue, pattern) {
  const colour = variable(element, `--sep-${hue}`) || "#00795a";
  const draw = MARKS[pattern];
  if (!draw) return colour;
  const ratio = devicePixelRatio || 1;
  const tile = document.createElement("canvas");
  tile.width = tile.height = SIZE * ratio;
  const c = tile.getContext("2d");
  c.scale(ratio, ratio);
  c.fillStyle = colour;
  c.fillRect(0, 0, SIZE, SIZE);
  c.strokeStyle = variable(element, "--sep-paper") || "#fff";
  c.globalAlpha = 0.34;
  c.lineWidth = pattern === "dotted" ? 1.6 : 1.2;
  c.beginPath();
  draw(c);
  c.stroke();
  const made = context.createPattern(tile, "repeat");
  made.setTransform(new DOMMatrix().scale(1 / ratio));
  return made;
}

/** Give a canvas as many device pixels as it covers; gives its context in CSS pixels. */
export function sharp(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
