// A picture from the text of an SVG: shapes and words only, nothing that runs or loads.

const KEPT = new Set(["svg", "g", "path", "polygon", "polyline", "ellipse", "rect", "line", "text", "tspan", "title"]);
const ATTRIBUTES = new Set(["viewBox", "class", "d", "points", "cx", "cy", "rx", "ry", "x", "y", "x1", "x2", "y1", "y2", "r",
  "width", "height", "fill", "stroke", "stroke-width", "stroke-dasharray", "transform", "text-anchor", "font-family", "font-size", "font-weight"]);
const SVG = "http://www.w3.org/2000/svg";

/** A copy, element by element, of what is known to be harmless. */
export function inertSvg(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
  const made = copied(parsed.documentElement) || document.createElementNS(SVG, "svg");
  if (!made.hasAttribute("viewBox")) made.setAttribute("viewBox", "0 0 1 1"); // not a picture
  return made;
}

function copied(source) {
  if (source.localName === "a") { // Graphviz wraps what has a tooltip
    const group = document.createElementNS(SVG, "g");
    for (const child of source.childNodes) add(group, child);
    return group;
  }
  if (source.namespaceURI !== SVG || !KEPT.has(source.localName)) return null;
  const target = document.createElementNS(SVG, source.localName);
  for (const { name, value } of source.attributes) {
    if (ATTRIBUTES.has(name) && !/url\s*\(/i.test(value)) target.setAttribute(name, value);
  }
  for (const child of source.childNodes) add(target, child);
  return target;
}

function add(target, child) {
  if (child.nodeType === Node.TEXT_NODE) target.append(child.data);
  else if (child.nodeType === Node.ELEMENT_NODE) {
    const made = copied(child);
    if (made) target.append(made);
  }
}
