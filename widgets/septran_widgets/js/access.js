// The widget around what a block touches.
import {widgetOf} from "./widget.js";
import {accessView} from "./access_view.js";

export default { render: widgetOf("sep-access-view", accessView) };
