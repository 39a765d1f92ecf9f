// The widget around a timeline.
import {tag, replaceStatic} from "./dom.js";
import {timelineView} from "./timeline_view.js";

function render({ model, el }) {
  const root = tag("div", { class: "sep-view sep-timeline" });
  el.append(root);
  const back = replaceStatic(model.get("static_token"));
  let view = null;
  const build = () => {
    if (view) view.destroy();
    view = timelineView(root, model.get("data"), (bar) => {
      model.set("selected", bar ? bar.origin.keys : []);
      model.save_changes();
    });
  };
  build();
  model.on("change:data", build);
  return () => { model.off("change:data", build); view.destroy(); back(); };
}

export default { render };
