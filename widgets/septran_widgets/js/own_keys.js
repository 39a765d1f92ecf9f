// Keys that are pressed in a view are the view's: JupyterLab's own shortcuts leave them alone.

const MARK = "data-lm-suppress-shortcuts";

/** JupyterLab looks at the focused element first, so each that gets the focus is marked. */
export function ownKeys(root) {
  root.setAttribute(MARK, "true");
  root.addEventListener("focusin", (event) => event.target.setAttribute(MARK, "true"));
}
