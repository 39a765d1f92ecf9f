// The widget around a ledger's graph.
import {widgetOf} from "./widget.js";
import {ledgerView} from "./ledger_view.js";

export default { render: widgetOf("sep-ledger", ledgerView) };
