// The widget around one element's way.
import {widgetOf} from "./widget.js";
import {elementView} from "./element_view.js";

export default { render: widgetOf("sep-element-view", elementView) };
