// The widget around a memory map.
import {widgetOf} from "./widget.js";
import {memoryView} from "./memory_view.js";

export default { render: widgetOf("sep-memory", memoryView) };
