// The mapping editor: a text that is compiled as it is written, and all that it gives.
import {Completion} from "./completion.js";
import {refill, replaceStatic, tag} from "./dom.js";
import {KnobsView} from "./knobs_view.js";
import {bytes, seconds} from "./numbers.js";
import {ownKeys} from "./own_keys.js";
import {OwnPane} from "./own_pane.js";
import {Explorer} from "./stages.js";
import {TextEditor} from "./text_editor.js";

const PATIENCE = 350;
/** Beside the text the program that it changes; the others are a key away. */
const FIRST = { panes: Object.fromEntries(["logic", "task_tree", "tensor_ir", "source"].map((name) => [name, { hidden: true }])) };

/** One question is asked at a time; what changes meanwhile is asked after the answer. */
class Editor {
  constructor(model, root) {
    this.model = model;
    this.root = root;
    this.sent = 0;
    this.waiting = false;
    this.text = new TextEditor(model.get("data").text, "yaml", "mapping", () => this.later());
    this.words = new Completion(this.text, (want, line, column, heard) => this.look(want, line, column, heard));
    this.knobs = new KnobsView((knob, value) => this.ask({ want: "turn", place: [knob.line, knob.column, knob.name], value }));
    this.status = tag("span", { class: "sep-note", role: "status", "aria-live": "polite" });
    this.mistakes = tag("ul", { class: "sep-mistakes", "aria-label": "mistakes" });
    this.figures = tag("dl", { class: "sep-facts sep-figures" });
    this.measured = tag("div", { class: "sep-measured", role: "status" });
    this.path = tag("input", { type: "text", "aria-label": "file to save as", value: model.get("data").name });
    this.pane = new OwnPane("mapping", "Mapping", this.text);
    this.stages = tag("div", { class: "sep-view sep-inner sep-explorer" }, this.pane.grid);
    const button = (label, action) => tag("button", { class: "sep-button", type: "button", onclick: action }, label);
    root.setAttribute("role", "region");
    root.setAttribute("aria-label", model.get("data").title);
    ownKeys(root);
    root.append(
      tag("div", { class: "sep-head" }, tag("span", { class: "sep-title" }, model.get("data").title), this.status,
        tag("span", { class: "sep-spring" }), button("run", () => this.ask({ want: "run" })), this.path,
        button("save as", () => this.ask({ want: "save", path: this.path.value }))),
      tag("div", { class: "sep-deck" }, this.knobs.element,
        tag("div", { class: "sep-told", tabindex: "0", role: "group", "aria-label": "Mistakes, prediction and measurements" }, this.mistakes, this.figures, this.measured)),
      this.stages);
    this.show();
    this.heard = (message) => this.answer(message);
    this.changed = () => this.show();
    model.on("change:data", this.changed);
    model.on("msg:custom", this.heard);
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask({ want: "text" }), PATIENCE);
  }

  ask(question) {
    if (this.waiting) { this.next = question; return; }
    this.waiting = true;
    this.sent += 1;
    this.status.textContent = question.want === "run" ? "running" : "compiling";
    this.model.send({ ...question, text: this.text.text, number: this.sent });
  }

  /** Ask what may stand at a place, or what its key means; it waits for no compilation. */
  look(want, line, column, heard) {
    this.heardOf = { ...this.heardOf, [want]: heard };
    this.model.send({ want, line, column, text: this.text.text });
  }

  /** An answer is {number, note?, measured?}; `data` has changed before it. */
  answer(message) {
    if (message.look) { this.heardOf[message.look](message.found); return; }
    if (message.number !== this.sent) return;
    this.waiting = false;
    if (message.text !== undefined && !this.next) this.text.text = message.text;
    if (message.measured) refill(this.measured, message.measured);
    this.say(message.note);
    const next = this.next;
    this.next = null;
    if (next) this.ask(next);
  }

  say(note) {
    const data = this.model.get("data");
    const count = data.mistakes.length;
    this.status.textContent = note || (count ? `${count} mistake${count > 1 ? "s" : ""}; what is shown below is of the last text without any` : data.seconds ? `compiled in ${seconds(data.seconds)}` : "");
  }

  show() {
    const data = this.model.get("data");
    this.text.mark(data.mistakes);
    refill(this.mistakes, data.mistakes.map((one) => this.mistake(one)));
    this.say();
    if (data.mistakes.length && data.knobs.length === 0) return; // the last good state stays
    this.knobs.show(data.knobs);
    this.figure(data.figures);
    if (data.stages) {
      this.pane.compiled = data.text;
      const kept = this.explorer ? this.explorer.remember() : FIRST;
      if (this.explorer) this.explorer.destroy();
      this.explorer = new Explorer(this.stages, data.stages, { kept, own: this.pane });
    }
  }

  mistake(one) {
    const place = one.line ? `line ${one.line}` : one.place || "mapping";
    const go = () => { if (one.line) this.text.caret(one.line, one.column); };
    return tag("li", {}, tag("button", { class: "sep-link", type: "button", onclick: go }, place), " ", one.message,
      one.hint ? tag("div", { class: "sep-note" }, one.hint) : null);
  }

  figure(figures) {
    const rows = figures.map(([name, value, unit, before]) => {
      const told = unit === "s" ? seconds(value) : unit === "B" ? bytes(value) : String(value);
      const change = before && typeof value === "number" ? value / before - 1 : 0;
      const sign = Math.abs(change) < 0.0005 ? "" : `${change > 0 ? "+" : "−"}${Math.abs(change * 100).toFixed(1)}%`;
      return [tag("dt", {}, name), tag("dd", {}, tag("span", { class: "sep-mono" }, told), sign ? tag("span", { class: `sep-change ${change > 0 ? "sep-more-of" : "sep-less-of"}` }, sign) : null)];
    });
    refill(this.figures, rows);
  }

  destroy() {
    clearTimeout(this.timer);
    this.model.off("change:data", this.changed);
    this.model.off("msg:custom", this.heard);
    if (this.explorer) this.explorer.destroy();
  }
}

function render({ model, el }) {
  const root = tag("div", { class: "sep-view sep-editor" });
  el.append(root);
  const back = replaceStatic(model.get("static_token"));
  const editor = new Editor(model, root);
  return () => { editor.destroy(); back(); };
}

export default { render };
