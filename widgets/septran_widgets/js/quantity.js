// A number with its unit, as tables and axes show it.
import {bytes, large, seconds, short, count} from "./numbers.js";

/** `value` in `unit`: "s", "B", "FLOP/s" or nothing. */
export function quantity(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "s") return seconds(value);
  if (unit === "B") return bytes(value);
  if (unit === "FLOP/s") return `${large(value)}${unit}`;
  return Number.isInteger(value) ? count(value) : short(value);
}
