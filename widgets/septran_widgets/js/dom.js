// Elements from plain values. Text becomes text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** An HTML element: `tag("button", {class: "x", onclick: f}, "text", ...)`. */
export function tag(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** Put `children` in the place of all that `element` holds. */
export function refill(element, ...children) {
  element.replaceChildren();
  return fill(element, {}, children);
}

let made = 0;
/** An identifier that no other view on the page has. */
export function unique(prefix) {
  made += 1;
  return `sep-${prefix}-${made}-${Math.random().toString(36).slice(2, 8)}`;
}

/** Hide the static picture that stands in for a view; gives what brings it back.
 *
 * A notebook may draw the picture after the view, anew, or twice: a rule hides it at any time,
 * where one that looked for it now would miss it.
 */
export function replaceStatic(token) {
  if (!token) return () => {};
  const name = `.${CSS.escape(token)}`, hide = "{ display: none !important; }";
  const holder = `.jp-OutputArea-child:has(${name}):not(:has(.jp-OutputArea-child))`;
  const rules = `${name} ${hide}\n${holder} ${hide}`;
  const sheet = tag("style", {}, rules);
  document.head.append(sheet);
  return () => sheet.remove();
}

/** Call `changed` whenever JupyterLab, a page or the system goes from light to dark or back. */
export function onTheme(changed) {
  const media = matchMedia("(prefers-color-scheme: dark)");
  const watcher = new MutationObserver(changed);
  const options = { attributes: true, attributeFilter: ["data-jp-theme-light", "data-theme", "class"] };
  watcher.observe(document.body, options);
  watcher.observe(document.documentElement, options);
  media.addEventListener("change", changed);
  return () => { watcher.disconnect(); media.removeEventListener("change", changed); };
}

/** What a style variable is at `element` now. */
export function variable(element, name) {
  return getComputedStyle(element).getPropertyValue(name).trim();
}

/** Call `act` when a number or text has been entered: on Enter, and on leaving a changed field. */
export function onEntered(input, act) {
  input.addEventListener("change", act);
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") act(); });
}
