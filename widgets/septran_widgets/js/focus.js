// What is pointed at or held, and all that lights up with it.

/** Lights elements that share a key with the focus; `data.sets` are sets of keys by number. */
export class Focus {
  constructor(data) {
    this.data = data;
    this.sets = data.sets;
    this.elements = new Map();
    this.lit = new Set();
    this.held = null;
    this.now = null;
    this.focused = new Set();
    this.listeners = [];
  }

  /** Have an element light up with the keys of a set. */
  register(element, set) {
    if (!set) return;
    if (!this.elements.has(set)) this.elements.set(set, new Set());
    this.elements.get(set).add(element);
    if (this.lit.has(set)) this.paint(element, set, true);
  }

  /** Forget elements that are no longer shown. */
  forget(root) {
    for (const all of this.elements.values()) {
      for (const element of all) if (root.contains(element)) all.delete(element);
    }
  }

  /** Call with ({keys, source}, why) whenever the focus changes. */
  onChange(listener) { this.listeners.push(listener); }

  /** Light up what shares a key with one of the sets; nothing happens while something is held. */
  point(sets, source) {
    if (this.held) return;
    this.show(sets.length ? { sets, source } : null);
  }

  /** Keep the light on; a second time on the same thing lets it go. */
  hold(sets, source) {
    if (this.held && this.held.source === source) { this.release(); return; }
    if (!sets.length) { this.release(); return; }
    this.held = { sets, source, held: true };
    this.show(this.held);
  }

  release() {
    this.held = null;
    this.show(null);
  }

  /** The keys of the focus as words, such as "why:3". */
  keys() {
    const found = new Set();
    for (const set of this.now ? this.now.sets : []) {
      for (const key of this.sets[set]) found.add(this.data.keys[key]);
    }
    return [...found];
  }

  show(focus) {
    if (this.now && this.now.source) this.now.source.classList.remove("sep-focus");
    this.now = focus;
    const wanted = this.matching(focus ? focus.sets : []);
    this.focused = new Set((focus ? focus.sets : []).flatMap((set) => this.sets[set]));
    for (const set of this.lit) if (!wanted.has(set)) this.mark(set, false);
    for (const set of wanted) this.mark(set, true);
    this.lit = wanted;
    if (focus && focus.source) focus.source.classList.add("sep-focus");
    for (const listener of this.listeners) listener(focus);
  }

  matching(sets) {
    const keys = new Set(sets.flatMap((set) => this.sets[set]));
    const found = new Set();
    if (keys.size) this.sets.forEach((own, set) => { if (own.some((key) => keys.has(key))) found.add(set); });
    return found;
  }

  mark(set, on) {
    for (const element of this.elements.get(set) || []) this.paint(element, set, on);
  }

  /** What stands for a whole task is lit more softly by a part of it. */
  paint(element, set, on) {
    element.classList.toggle("sep-lit", on);
    element.classList.toggle("sep-around", on && this.around(set));
  }

  around(set) {
    const own = this.sets[set].filter((key) => this.data.keys[key].startsWith("task:"));
    return own.length > 0 && !own.some((key) => this.focused.has(key));
  }
}
