// One stop of the Tab key for many elements: arrow keys go from one to the next.

/** Make `items` one stop; `over` hears focus and hover, `choose` hears clicks and Enter. */
export function roving(items, { over = () => {}, choose = () => {}, columns = 1 } = {}) {
  let at = 0;
  const go = (to) => {
    if (!items.length) return;
    items[at].setAttribute("tabindex", "-1");
    at = Math.max(0, Math.min(items.length - 1, to));
    items[at].setAttribute("tabindex", "0");
    items[at].focus();
  };
  const moves = {
    ArrowRight: () => go(at + 1), ArrowDown: () => go(at + columns),
    ArrowLeft: () => go(at - 1), ArrowUp: () => go(at - columns),
    Home: () => go(0), End: () => go(items.length - 1),
  };
  items.forEach((item, n) => {
    item.setAttribute("tabindex", n ? "-1" : "0");
    item.addEventListener("focus", () => over(item, n));
    item.addEventListener("mouseenter", () => over(item, n));
    item.addEventListener("mouseleave", () => over(null, -1));
    item.addEventListener("click", () => { items[at].setAttribute("tabindex", "-1"); at = n; item.setAttribute("tabindex", "0"); choose(item, n); });
    item.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") choose(item, n);
      else if (event.key === "Escape") choose(null, -1);
      else if (moves[event.key]) { at = n; moves[event.key](); } else return;
      event.preventDefault();
      event.stopPropagation();
    });
  });
  return { go };
}
