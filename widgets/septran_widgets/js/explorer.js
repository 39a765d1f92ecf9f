// The stage explorer as a widget.
import {Explorer} from "./stages.js";
import {saveText} from "./saving.js";
import {widgetOf} from "./widget.js";

const kept = new WeakMap();

function view(root, data, select, model) {
  const canSave = Boolean(model.get("can_save"));
  const savePage = canSave ? () => model.send({ want: "page" }) : null;
  const explorer = new Explorer(root, data, { select, savePage, kept: kept.get(root) || {} });
  const heard = (message) => {
    if (message.page) saveText(`${data.title.replace(/\W+/g, "_")}.html`, message.page, "text/html");
  };
  model.on("msg:custom", heard);
  return {
    destroy() {
      model.off("msg:custom", heard);
      kept.set(root, explorer.remember());
      explorer.destroy();
    },
  };
}

export default { render: widgetOf("sep-explorer", view) };
