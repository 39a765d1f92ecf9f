// Sliders and choices for the values of a mapping.
import {refill, tag, unique} from "./dom.js";

/** `turn(knob, value)` hears what one chooses. */
export class KnobsView {
  constructor(turn) {
    this.turn = turn;
    this.element = tag("div", { class: "sep-knobs", role: "group", "aria-label": "tunables" });
    this.shown = "";
  }

  show(knobs) {
    const shape = JSON.stringify(knobs.map((knob) => [knob.name, knob.about, knob.values]));
    if (shape === this.shown) knobs.forEach((knob, n) => this.rows[n].set(knob));
    else this.build(knobs);
    this.shown = shape;
  }

  build(knobs) {
    this.rows = knobs.map((knob) => this.row(knob));
    refill(this.element, knobs.length ? this.rows.map((row) => row.element)
      : tag("p", { class: "sep-note" }, "This text sets no tunables of this logic."));
  }

  row(knob) {
    const row = { knob };
    const id = unique("knob");
    const value = tag("output", { class: "sep-mono", for: id });
    const name = `${knob.name}${knob.about ? ` of ${knob.about}` : ""}`;
    const many = knob.values.length > 2 && knob.values.every((one) => typeof one === "number");
    const input = many
      ? tag("input", { type: "range", id, min: 0, max: knob.values.length - 1, step: 1, "aria-label": name })
      : tag("select", { id, "aria-label": name }, knob.values.map((one) => tag("option", {}, told(one))));
    const index = () => (many ? Number(input.value) : input.selectedIndex);
    const say = (n) => { value.textContent = told(knob.values[n]); input.setAttribute("aria-valuetext", told(knob.values[n])); };
    input.addEventListener("input", () => { say(index()); });
    input.addEventListener("change", () => this.turn(row.knob, row.knob.values[index()]));
    row.set = (now) => {
      row.knob = now;
      const at = now.values.findIndex((one) => JSON.stringify(one) === JSON.stringify(now.value));
      if (many) input.value = String(at); else input.selectedIndex = at;
      say(at);
    };
    row.element = tag("div", { class: "sep-knob" },
      tag("label", { for: id, title: name }, tag("span", { class: "sep-mono" }, knob.name), " ",
        tag("span", { class: "sep-note" }, knob.tuned ? "!tune" : `line ${knob.line}`)), value, input);
    row.set(knob);
    return row;
  }
}

function told(value) {
  return Array.isArray(value) ? value.map(told).join(", ") : String(value);
}
