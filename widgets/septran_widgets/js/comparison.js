// The widget around a comparison of mappings.
import {widgetOf} from "./widget.js";
import {comparisonView} from "./comparison_view.js";

export default { render: widgetOf("sep-comparison", comparisonView) };
