// The widget around a layout.
import {widgetOf} from "./widget.js";
import {layoutView} from "./layout_view.js";

export default { render: widgetOf("sep-layout-view", layoutView) };
