// A Graphviz drawing whose boxes are linked: zoom by wheel or keys, pan by dragging or arrows.
import {tag} from "./dom.js";
import {inertSvg} from "./inert_svg.js";

/** `graph` is {svg, boxes}: the picture's text and the set of keys of each box by its title. */
export class DrawingView {
  constructor(graph, focus, label) {
    this.focus = focus;
    this.svg = inertSvg(graph.svg);
    this.box = this.svg.viewBox.baseVal;
    this.whole = [this.box.x, this.box.y, this.box.width, this.box.height];
    this.element = tag("div", { class: "sep-drawing", role: "group", "aria-label": label }, this.svg);
    this.svg.setAttribute("preserveAspectRatio", "xMidYMin meet");
    for (const name of ["width", "height"]) this.svg.removeAttribute(name);
    this.nodes = [];
    for (const group of this.svg.querySelectorAll("g.node")) this.node(group, graph.boxes);
    if (this.nodes.length) this.nodes[0].setAttribute("tabindex", "0");
    this.listen();
    this.fitted = false;
    this.sizes = new ResizeObserver(() => this.fit());
    this.sizes.observe(this.element);
  }

  /** Begin at a size that can be read, its top in the middle. */
  fit() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height || this.fitted) return;
    this.fitted = true;
    const [x, y, w, h] = this.whole;
    const scale = Math.max(0.8, Math.min(1.1, width / w, height / h));
    this.home = [x + (w - width / scale) / 2, y, width / scale, height / scale];
    this.reset();
  }

  node(group, boxes) {
    const title = group.querySelector("title");
    const set = boxes[title ? title.textContent : ""] || 0;
    const words = [...group.querySelectorAll("text")].map((text) => text.textContent.trim());
    if (title) title.remove();
    group.sets = set ? [set] : [];
    group.setAttribute("role", "button");
    group.setAttribute("tabindex", "-1");
    group.setAttribute("aria-label", words.slice(0, 3).join(", "));
    this.focus.register(group, set);
    this.nodes.push(group);
    group.addEventListener("pointerenter", () => this.focus.point(group.sets, group));
    group.addEventListener("pointerleave", () => this.focus.point([], null));
    group.addEventListener("focus", () => this.focus.point(group.sets, group));
    group.addEventListener("click", () => { if (!this.moved) this.focus.hold(group.sets, group); });
  }

  listen() {
    const target = this.element;
    target.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    target.addEventListener("pointerdown", (event) => { this.moved = false; this.drag = [event.clientX, event.clientY]; });
    target.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) target.addEventListener(name, () => { this.drag = null; });
    target.addEventListener("dblclick", () => this.reset());
    target.addEventListener("keydown", (event) => this.key(event));
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return; // the page scrolls
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? 1 / 1.2 : 1.2, event.offsetX / this.element.clientWidth, event.offsetY / this.element.clientHeight);
  }

  move(event) {
    if (!this.drag || !event.buttons) return;
    const [dx, dy] = [event.clientX - this.drag[0], event.clientY - this.drag[1]];
    if (!this.moved && Math.hypot(dx, dy) < 4) return;
    this.moved = true;
    this.drag = [event.clientX, event.clientY];
    const scale = this.scale();
    this.box.x -= dx * scale; this.box.y -= dy * scale;
  }

  scale() {
    return Math.max(this.box.width / this.svg.clientWidth, this.box.height / this.svg.clientHeight);
  }

  key(event) {
    const at = this.nodes.indexOf(event.target.closest("g.node"));
    const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps && event.shiftKey) this.pan(event.key);
    else if (event.key in steps) this.to(at + steps[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(1 / 1.25, 0.5, 0.5);
    else if (event.key === "-") this.zoom(1.25, 0.5, 0.5);
    else if (event.key === "0") this.reset();
    else if ((event.key === "Enter" || event.key === " ") && at >= 0) this.focus.hold(this.nodes[at].sets, this.nodes[at]);
    else return;
    event.preventDefault();
  }

  to(n) {
    const next = this.nodes[Math.min(Math.max(n, 0), this.nodes.length - 1)];
    if (!next) return;
    for (const node of this.nodes) node.setAttribute("tabindex", node === next ? "0" : "-1");
    next.focus({ preventScroll: true });
    this.show(next);
  }

  pan(key) {
    const step = 40 * this.scale();
    if (key === "ArrowLeft") this.box.x -= step;
    if (key === "ArrowRight") this.box.x += step;
    if (key === "ArrowUp") this.box.y -= step;
    if (key === "ArrowDown") this.box.y += step;
  }

  zoom(factor, x, y) {
    const [width, height] = [this.box.width * factor, this.box.height * factor];
    if (width > this.whole[2] * 4 || width < this.whole[2] / 20) return;
    this.box.x += (this.box.width - width) * x; this.box.y += (this.box.height - height) * y;
    this.box.width = width; this.box.height = height;
  }

  reset() { [this.box.x, this.box.y, this.box.width, this.box.height] = this.home || this.whole; }

  /** Bring a box into view. */
  show(node) {
    const { x, y, width, height } = node.getBBox();
    const matrix = node.getCTM().inverse();
    const seen = new DOMPoint(0, 0).matrixTransform(matrix);
    const end = new DOMPoint(this.element.clientWidth, this.element.clientHeight).matrixTransform(matrix);
    const dx = x < seen.x || x + width > end.x ? x + width / 2 - (seen.x + end.x) / 2 : 0;
    const dy = y < seen.y || y + height > end.y ? y + height / 2 - (seen.y + end.y) / 2 : 0;
    this.box.x += dx;
    this.box.y = Math.min(this.box.y + dy, Math.max(this.whole[1], this.whole[1] + this.whole[3] - this.box.height));
  }

  get text() { return new XMLSerializer().serializeToString(this.svg); }

  lit() { return this.nodes.filter((node) => node.classList.contains("sep-lit")); }

  follow() {
    const lit = this.lit();
    const near = lit.filter((node) => !node.classList.contains("sep-around"));
    const all = near.length ? near : lit;
    if (all.length) this.show(all[all.length - 1]);
  }
}
