// Where memories and bands of a ledger are drawn.

const NODE = 14, GAP = 34, TOP = 34, LEAST = 3, REMOVED = 5;

/** Places of memories and bands in a drawing that is `width` wide. */
export function sankey(data, width, tallest = 220) {
  const columns = [
    ...data.columns.in.map((names) => names.map((name) => node(name, "in"))),
    [node("compute", "compute")],
    ...data.columns.out.map((names) => names.map((name) => node(name, "out"))),
  ];
  const find = (name, way) => columns.flat().find((one) => one.name === name && one.way === way);
  const bands = data.bands.map((band) => ({
    ...band, from: find(band.source, band.way), to: find(band.target, band.way),
  })).filter((band) => band.from && band.to);
  for (const band of bands) { band.from.out.push(band); band.to.into.push(band); }
  const most = Math.max(1, ...columns.map((names) => names.reduce((sum, one) => sum + weight(one), 0)));
  for (const band of bands) {
    band.thick = band.state === "removed" ? REMOVED : Math.max(LEAST, (band.total / most) * tallest);
  }
  for (const one of columns.flat()) one.height = Math.max(18, side(one.into), side(one.out));
  const tall = Math.max(...columns.map((names) => names.reduce((sum, one) => sum + one.height, 0) + GAP * (names.length - 1)));
  columns.forEach((names, n) => place(names, n, columns.length, width, tall));
  for (const one of columns.flat()) { ports(one, "into", "end"); ports(one, "out", "start"); }
  return { nodes: columns.flat(), bands, height: TOP + tall + 14 };
}

function node(name, way) { return { name, way, into: [], out: [] }; }

function side(bands) { return bands.reduce((sum, band) => sum + band.thick, 0); }

function weight(one) {
  const total = (bands) => bands.reduce((sum, band) => sum + band.total, 0);
  return Math.max(total(one.into), total(one.out));
}

function place(names, column, columns, width, tall) {
  const used = names.reduce((sum, one) => sum + one.height, 0) + GAP * (names.length - 1);
  let y = TOP + (tall - used) / 2;
  for (const one of names) {
    one.x = 4 + (column / Math.max(1, columns - 1)) * (width - NODE - 8);
    one.width = NODE;
    one.y = y;
    y += one.height + GAP;
  }
}

function ports(one, way, end) {
  let y = one.y + (one.height - side(one[way])) / 2;
  const other = way === "into" ? "from" : "to";
  for (const band of [...one[way]].sort((a, b) => a[other].y - b[other].y || a.number - b.number)) {
    band[end] = { x: way === "into" ? one.x : one.x + one.width, y };
    y += band.thick;
  }
}

/** The outline of a band, thick from port to port. */
export function bandPath({ start, end, thick }) {
  const bend = (end.x - start.x) / 2;
  const curve = (from, to, dy) => `C ${from.x + (to.x > from.x ? bend : -bend)} ${from.y + dy}, ${to.x - (to.x > from.x ? bend : -bend)} ${to.y + dy}, ${to.x} ${to.y + dy}`;
  return `M ${start.x} ${start.y} ${curve(start, end, 0)} L ${end.x} ${end.y + thick} ${curve(end, start, thick)} Z`;
}
