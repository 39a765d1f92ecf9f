// Numbers as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** 12345 as "12,345". */
export function count(value) {
  return Math.round(value).toLocaleString("en-US");
}

/** Bytes in the unit that keeps them short: "64 KiB". */
export function bytes(value) {
  let power = 0;
  while (Math.abs(value) >= 1024 && power < UNITS.length - 1) { value /= 1024; power += 1; }
  return `${short(value)} ${UNITS[power]}`;
}

/** At most four digits that matter. */
export function short(value) {
  if (!Number.isFinite(value)) return "-";
  return String(Number(value.toPrecision(4)));
}

/** 0.1234 as "12.3%". */
export function percent(value) {
  return `${(value * 100).toFixed(1)}%`;
}

/** Seconds as "12.3 us". */
export function seconds(value) {
  for (const [unit, scale] of [["s", 1], ["ms", 1e3], ["us", 1e6]]) {
    if (value * scale >= 1) return `${short(value * scale)} ${unit}`;
  }
  return `${short(value * 1e9)} ns`;
}

/** 1234567 as "1.23 M". */
export function large(value) {
  for (const [scale, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= scale) return `${short(value / scale)} ${letter}`;
  }
  return short(value);
}
