// The bars of timelines: where they are, which one is at a point, how they are drawn.
import {variable} from "./dom.js";
import {fillOf} from "./hues.js";

const LANE = 26, ROW = 13, TITLE = 26, GROUP = 22, GAP = 10;

/** All bars as objects, by lane, with the y of each lane; `height` is that of everything. */
export function layOut(timelines) {
  const lanes = [];
  let top = 0;
  timelines.forEach((timeline, index) => {
    const titled = timelines.length > 1;
    const head = titled ? top : null;
    if (titled) top += TITLE;
    const first = lanes.length, many = new Set(timeline.lanes.map((lane) => lane.group)).size > 1;
    let last = null;
    for (const lane of timeline.lanes) {
      const height = LANE + (lane.rows - 1) * ROW;
      const groupTop = many && lane.group !== last ? top : null;
      if (groupTop !== null) top += GROUP;
      last = lane.group;
      lanes.push({ ...lane, top, height, groupTop, bars: [], timeline: index, head, number: lanes.length });
      top += height;
    }
    const { lane, row, start, end, what } = timeline.bars;
    for (let n = 0; n < lane.length; n += 1) {
      const [kind, label, origin, bytes, flops, edge, count] = timeline.what[what[n]];
      const place = lanes[first + lane[n]];
      place.bars.push({
        lane: place, row: row[n], start: start[n], end: end[n], kind, label, bytes, flops, edge,
        count, origin: timeline.origins[origin], timeline: index,
      });
    }
    top += GAP;
  });
  for (const lane of lanes) lane.bars.sort((a, b) => a.start - b.start || a.end - b.end);
  return { lanes, height: top - GAP };
}

/** Top and height of a bar inside of its lane. */
export function boxOf(bar) {
  const lane = bar.lane;
  if (bar.kind === "wait") return [lane.top + lane.height / 2 - 2, 4];
  const each = (lane.height - 6) / lane.rows;
  return [lane.top + 3 + bar.row * each, each - (lane.rows > 1 ? 1 : 0)];
}

/** The bar at a point of the drawing; bars win over waits. */
export function barAt(lanes, axis, x, y) {
  const lane = lanes.find((one) => y >= one.top && y < one.top + one.height);
  if (!lane) return null;
  const slack = 2 * (axis.to - axis.from) / axis.width;
  const time = axis.time(x);
  let found = null;
  for (const bar of lane.bars) {
    if (bar.start - slack > time) break;
    if (bar.end + slack < time) continue;
    const [top, height] = boxOf(bar);
    if (y < top - 1 || y > top + height + 1) continue;
    if (!found || found.kind === "wait" || bar.start <= time) found = bar;
  }
  return found;
}

/** Whether two bars came from the same place. */
export function related(a, b) {
  if (!a || !b) return false;
  if (a.origin.keys.length && b.origin.keys.length) {
    return a.origin.rule === b.origin.rule && a.origin.keys.join() === b.origin.keys.join();
  }
  return a.origin.rule === b.origin.rule && a.label === b.label;
}

/** The fills of all kinds, to be made again when the theme changes. */
export function fills(context, element, timelines) {
  const kinds = Object.assign({}, ...timelines.map((timeline) => timeline.kinds));
  const found = {};
  for (const [name, kind] of Object.entries(kinds)) {
    found[name] = fillOf(context, element, kind.hue, kind.pattern);
  }
  found.ink = variable(element, "--sep-ink");
  found.paper = variable(element, "--sep-paper");
  found.faint = variable(element, "--sep-faint");
  return found;
}

/** Draw every bar in sight; `chosen` is pinned, `over` is under the pointer. */
export function drawBars(context, lanes, axis, fill, chosen, over) {
  const ends = [-4, axis.width + 4];
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const lane of lanes) {
    for (const bar of lane.bars) {
      const left = Math.max(ends[0], axis.x(bar.start));
      const right = Math.min(ends[1], axis.x(bar.end));
      if (right < 0 || left > axis.width) continue;
      drawBar(context, bar, left, right, fill, chosen);
    }
  }
  for (const lane of lanes) {
    for (const bar of lane.bars) {
      if (bar === over || bar === chosen || related(bar, over)) outline(context, bar, axis, fill, bar === chosen);
    }
  }
  context.globalAlpha = 1;
}

function drawBar(context, bar, left, right, fill, chosen) {
  const [top, height] = boxOf(bar);
  const width = Math.max(0.6, right - left - (right - left > 3 ? 0.8 : 0));
  context.globalAlpha = (chosen && !related(bar, chosen) ? 0.3 : 1) * (bar.kind === "wait" ? 0.55 : 1);
  context.fillStyle = fill[bar.kind];
  if (width > 6 && bar.kind !== "wait") {
    context.beginPath();
    context.roundRect(left, top, width, height, 2);
    context.fill();
  } else context.fillRect(left, top, width, height);
  if (width < 46 || height < 12 || bar.kind === "wait") return;
  const text = bar.count > 1 ? `${bar.label} x ${bar.count}` : bar.label;
  const from = Math.max(left, 0) + 6;
  if (context.measureText(text).width > right - from - 8) return;
  context.globalAlpha *= 0.9;
  context.fillStyle = fill.paper;
  context.fillText(text, from, top + height / 2 + 0.5);
}

function outline(context, bar, axis, fill, pinned) {
  const [top, height] = boxOf(bar);
  const left = Math.max(-4, axis.x(bar.start));
  const right = Math.min(axis.width + 4, axis.x(bar.end));
  if (right < 0 || left > axis.width) return;
  context.globalAlpha = 1;
  context.strokeStyle = fill.ink;
  context.lineWidth = pinned ? 2.5 : 1.2;
  context.strokeRect(left - 0.5, top - 0.5, Math.max(2, right - left) + 1, height + 1);
}
