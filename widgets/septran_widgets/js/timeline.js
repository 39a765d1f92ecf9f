// The widget around a timeline.
import {widgetOf} from "./widget.js";
import {timelineView} from "./timeline_view.js";

export default { render: widgetOf("sep-timeline", timelineView) };
