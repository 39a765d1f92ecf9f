// What every widget does: replace the static HTML, build the view, build it anew on new data.
import {tag, replaceStatic} from "./dom.js";
import {ownKeys} from "./own_keys.js";

/** anywidget's `render` for `view(root, data, onSelect, model)`, which may give {destroy}. */
export function widgetOf(name, view) {
  return ({ model, el }) => {
    // JupyterLab would take Enter and the arrow keys for shortcuts of its own.
    const root = tag("div", { class: `sep-view ${name}`, "data-lm-suppress-shortcuts": "true" });
    el.append(root);
    ownKeys(root);
    const back = replaceStatic(model.get("static_token"));
    const select = (keys) => { model.set("selected", keys); model.save_changes(); };
    let shown = null;
    const build = () => {
      if (shown && shown.destroy) shown.destroy();
      shown = view(root, model.get("data"), select, model);
    };
    build();
    model.on("change:data", build);
    return () => {
      model.off("change:data", build);
      if (shown && shown.destroy) shown.destroy();
      back();
    };
  };
}
