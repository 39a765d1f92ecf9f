// Timelines one above the other on one axis of time, by mouse and by keyboard.
import {tag, refill, onTheme} from "./dom.js";
import {bytes, count, large, percent, short} from "./numbers.js";
import {Axis} from "./axis.js";
import {sharp} from "./hues.js";
import {layOut, barAt, boxOf, fills, drawBars} from "./bars.js";
import {factList, placeList} from "./facts.js";
import {timelineKeys} from "./timeline_keys.js";

const FOOT = 22, FRAMES = 30;
const HELP = "Arrow keys go from bar to bar, plus and minus zoom, Enter shows a bar in full, "
  + "0 shows all, Escape lets go. Control and wheel zoom, dragging pans.";

/** Put a timeline into `root`; `data` is {timelines}; `onSelect` hears what is chosen. */
export function timelineView(root, data, onSelect = () => {}) {
  const { lanes, height } = layOut(data.timelines);
  const unit = data.timelines[0] ? data.timelines[0].unit : "";
  const end = Math.max(...data.timelines.map((timeline) => timeline.end), 0);
  const state = { lanes, chosen: null, over: null, fill: null };
  const canvas = tag("canvas", { "aria-hidden": "true" });
  const plot = tag("div", {
    class: "sep-plot", tabindex: "0", role: "application", "aria-roledescription": "timeline",
    "aria-label": `Timeline, ${count(end)} ${unit}, ${lanes.length} lanes. ${HELP}`,
  }, canvas);
  const tip = tag("div", { class: "sep-tip", hidden: true, "aria-hidden": "true" });
  const why = tag("div", { class: "sep-why", role: "status", "aria-live": "polite" });
  let waiting = false;
  const draw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; paint(FRAMES); });
  };
  const axis = new Axis(end, draw);
  state.axis = axis;

  function paint(tries) {
    const width = plot.clientWidth;
    if (!width) {  // JupyterLab hides everything for a moment when its theme changes
      if (tries) requestAnimationFrame(() => paint(tries - 1));
      return;
    }
    axis.width = width;
    const context = sharp(canvas, width, height + FOOT);
    state.fill = state.fill || fills(context, root, data.timelines);
    grid(context, axis, state.fill, lanes, height, unit, data.timelines);
    drawBars(context, lanes, axis, state.fill, state.chosen, state.over);
  }

  state.choose = (bar) => {
    state.chosen = bar;
    refill(why, bar ? facts(bar, unit) : rest(data.timelines, unit));
    onSelect(bar ? bar.origin.keys : []);
    draw();
  };
  state.hover = (bar, x, y) => {
    if (bar !== state.over) draw();
    state.over = bar;
    tip.hidden = !bar;
    if (!bar) return;
    refill(tip, ...tipOf(bar, unit));
    tip.style.left = `${Math.max(0, Math.min(x + 12, plot.clientWidth - 250))}px`;
    tip.style.top = `${y + 16}px`;
  };
  plot.append(tip);
  pointer(plot, canvas, state, axis);
  plot.addEventListener("keydown", (event) => timelineKeys(event, state, axis));
  refill(root, head(data, axis, lanes), tag("div", { class: "sep-lanes" },
    labels(lanes, data.timelines, height), plot), why);
  state.choose(null);
  const size = new ResizeObserver(draw);
  size.observe(plot);
  const stop = onTheme(() => { state.fill = null; draw(); });
  return { axis, state, destroy: () => { size.disconnect(); stop(); } };
}

function head(data, axis, lanes) {
  const one = data.timelines.length === 1 ? data.timelines[0] : null;
  const kinds = Object.assign({}, ...data.timelines.map((timeline) => timeline.kinds));
  const button = (words, name, act) => tag("button",
    { class: "sep-button", type: "button", "aria-label": name, title: name, onclick: act }, words);
  return tag("div", {},
    tag("div", { class: "sep-head" },
      one && tag("span", { class: "sep-title" }, one.title),
      one && tag("span", { class: "sep-note" }, [`${count(one.end)} ${one.unit}`, ...one.notes].join(" · ")),
      tag("span", { class: "sep-spring" }),
      button("−", "Zoom out", () => axis.zoom(2)),
      button("+", "Zoom in", () => axis.zoom(0.5)),
      button("all", "Show all", () => axis.fit())),
    tag("div", { class: "sep-legend", "aria-label": "Legend", role: "group" },
      Object.values(kinds).map((kind) => tag("span", {},
        tag("i", { class: `sep-swatch sep-${kind.pattern}`, style: `--hue: var(--sep-${kind.hue})`, "aria-hidden": "true" }),
        kind.title))));
}

function labels(lanes, timelines, height) {
  const found = [];
  lanes.forEach((lane, n) => {
    const before = lanes[n - 1];
    if (lane.head !== null && (!before || before.timeline !== lane.timeline)) {
      const timeline = timelines[lane.timeline];
      found.push(tag("div", { class: "sep-lane-title", style: `top: ${lane.head}px` },
        tag("b", {}, timeline.title), ` ${count(timeline.end)} ${timeline.unit}`));
    }
    if (lane.groupTop !== null) {
      found.push(tag("div", { class: "sep-lane-group", style: `top: ${lane.groupTop}px` }, lane.group));
    }
    found.push(tag("div", {
      class: "sep-lane", style: `top: ${lane.top}px; height: ${lane.height}px`,
      title: `${count(lane.count)} commands, ${bytes(lane.bytes)}, waits ${percent(lane.waits)}`,
    },
    tag("span", { class: "sep-lane-name", title: `${lane.group} ${lane.title}`.trim() }, lane.title),
    tag("span", { class: "sep-busy", style: `--busy: ${Math.min(1, lane.busy) * 100}%` }, percent(lane.busy))));
  });
  return tag("div", { class: "sep-labels", style: `height: ${height + FOOT}px` }, found);
}

function grid(context, axis, fill, lanes, height, unit, timelines) {
  context.clearRect(0, 0, axis.width, height + FOOT);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "top";
  context.lineWidth = 1;
  for (const lane of lanes) {
    context.fillStyle = fill.faint;
    context.globalAlpha = lane.number % 2 ? 0.22 : 0.5;
    context.fillRect(0, lane.top + 1, axis.width, lane.height - 2);
  }
  context.globalAlpha = 1;
  for (const time of axis.ticks()) {
    const x = Math.round(axis.x(time)) + 0.5;
    context.strokeStyle = fill.faint;
    context.beginPath();
    for (const lane of lanes) {
      context.moveTo(x, lane.top);
      context.lineTo(x, lane.top + lane.height);
    }
    context.moveTo(x, height);
    context.lineTo(x, height + 4);
    context.stroke();
    context.fillStyle = fill.ink;
    const text = time >= 1e6 ? large(time) : time % 1 ? short(time) : count(time);
    const wide = context.measureText(text).width;
    context.fillText(text, Math.min(Math.max(0, x - wide / 2), axis.width - wide), height + 7);
  }
  if (timelines.length < 2) return;
  context.setLineDash([3, 3]);
  context.strokeStyle = fill.ink;
  timelines.forEach((timeline, n) => {  // where each run is over
    const mine = lanes.filter((lane) => lane.timeline === n);
    if (!mine.length || timeline.end >= axis.to) return;
    const x = Math.round(axis.x(timeline.end)) + 0.5, last = mine[mine.length - 1];
    context.beginPath();
    context.moveTo(x, mine[0].top);
    context.lineTo(x, last.top + last.height);
    context.stroke();
  });
  context.setLineDash([]);
}

function pointer(plot, canvas, state, axis) {
  let drag = null;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) {
      if (Math.abs(event.clientX - drag.x) > 3 || drag.moved) {
        drag.moved = true;
        axis.pan(drag.x - event.clientX);
        drag.x = event.clientX;
      }
      return;
    }
    const [x, y] = place(event);
    state.hover(barAt(state.lanes, axis, x, y), x, y);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) state.choose(barAt(state.lanes, axis, ...place(event)));
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => state.hover(null));
  canvas.addEventListener("dblclick", (event) => axis.zoom(0.25, place(event)[0]));
  plot.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) axis.zoom(Math.exp(event.deltaY / 300), place(event)[0]);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) axis.pan(event.deltaX);
    else return;
    event.preventDefault();
  }, { passive: false });
}

function facts(bar, unit) {
  const rate = (amount) => short(amount / (bar.end - bar.start));
  const amounts = [
    bar.bytes ? `${bytes(bar.bytes)} ${bar.edge}, ${rate(bar.bytes)} B/${singular(unit)}` : "",
    bar.flops ? `${large(bar.flops)}FLOP, ${rate(bar.flops)} FLOP/${singular(unit)}` : "",
  ];
  return factList([
    ["what", tag("b", {}, bar.count > 1 ? `${bar.label}, ${count(bar.count)} in a row` : bar.label)],
    ["when", `${count(bar.start)} to ${count(bar.end)}: ${count(bar.end - bar.start)} ${unit} in ${bar.lane.group} ${bar.lane.title}`],
    ["how much", amounts.filter(Boolean).join(", ")],
    ["why", bar.origin.rule || "not known"],
    ["where", placeList(bar.origin.places)],
  ]);
}

function singular(unit) { return unit === "cycles" ? "cycle" : unit; }

function rest(timelines, unit) {
  const text = timelines.length > 1
    ? timelines.map((timeline) => `${timeline.title}: ${count(timeline.end)} ${unit}`).join(" · ")
    : "";
  return tag("span", { class: "sep-note" }, text, text ? " — " : "",
    "Point at a bar to see what it is; click it, or use the arrow keys, to learn why it is there.");
}

function tipOf(bar, unit) {
  return [tag("b", {}, bar.label), tag("br"),
    `${count(bar.end - bar.start)} ${unit}`, bar.bytes ? ` · ${bytes(bar.bytes)}` : "",
    bar.edge ? ` · ${bar.edge}` : "", tag("br"), tag("span", { class: "sep-note" }, bar.origin.rule)];
}
