// Says in words why what is lit is there, and leads to the lines that decided it.
import {refill, tag} from "./dom.js";

const MOST = 5;
const HINT = "Point at a line, a name or a box to see what it came from and what became of it. A click, or Enter, holds it.";

/** `open(file, line)` brings a line into view. */
export class WhyBox {
  constructor(data, focus, open) {
    this.data = data;
    this.focus = focus;
    this.open = open;
    this.element = tag("div", { class: "sep-why", role: "status", "aria-live": "polite" });
    focus.onChange((now) => this.show(now));
    this.show(null);
  }

  show(now) {
    const keys = now ? this.focus.keys() : [];
    const whys = keys.filter((key) => key.startsWith("why:")).map((key) => this.data.whys[Number(key.slice(4))]);
    const about = keys.map((key) => !key.startsWith("task:") || keys.length < 8 ? this.data.about[key] : null).filter(Boolean);
    if (!whys.length && !about.length) {
      refill(this.element, tag("div", { class: "sep-note" }, HINT));
      return;
    }
    const rest = whys.length - MOST;
    refill(this.element,
      now.held ? tag("span", { class: "sep-held" }, "held, Esc lets go") : null,
      about.slice(0, 2).map((words) => tag("div", { class: "sep-about" }, words)),
      whys.slice(0, MOST).map((why) => this.reason(why, whys.length > 2)),
      rest > 0 ? tag("div", { class: "sep-note" }, `and ${rest} more`) : null);
  }

  reason(why, short) {
    const places = [["logic", why.logic], ["mapping", why.mapping]].filter(([, place]) => place);
    return tag("div", { class: "sep-reason" },
      tag("div", { class: "sep-rule" }, why.rule),
      tag("div", { class: "sep-places" }, places.map(([kind, place]) => this.place(kind, place, short))));
  }

  place(kind, place, short) {
    const go = () => this.open(place.file, place.line);
    return tag("span", { class: "sep-place" },
      tag("span", { class: "sep-note" }, kind),
      tag("button", { class: "sep-link", type: "button", onclick: go }, `${place.name}:${place.line}`),
      short || !place.text ? null : tag("code", { class: "sep-mono" }, place.text));
  }
}
