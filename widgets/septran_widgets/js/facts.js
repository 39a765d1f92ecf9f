// A list of names and values, as the "why" boxes of all views show them.
import {tag, refill} from "./dom.js";

/** Rows of [name, value]; rows that are falsy or have no value are left out. */
export function factList(rows) {
  const kept = rows.filter((row) => row && row[1] !== "" && row[1] !== null && row[1] !== undefined && row[1] !== 0);
  return tag("dl", { class: "sep-facts" },
    kept.map(([name, value]) => [tag("dt", {}, name), tag("dd", {}, value)]));
}

/** Source places, one a line, in a monospaced face. */
export function placeList(places) {
  if (!places || !places.length) return "";
  return places.map((place) => tag("div", { class: "sep-mono" }, place));
}

/** A box that says what is under the pointer, or else what is chosen, or else a hint. */
export function whyBox(hint) {
  const box = tag("div", { class: "sep-why", role: "status", "aria-live": "polite" });
  let pinned = null;
  const show = (content) => refill(box, ...(content || pinned || [tag("span", { class: "sep-note" }, hint)]));
  show(null);
  return {
    box,
    over: (content) => show(content),
    pin: (content) => { pinned = content; show(null); },
  };
}
