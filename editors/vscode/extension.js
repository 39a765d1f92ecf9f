// Starts `septran lsp` for mapping and machine files.
const { workspace } = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

function activate() {
  const settings = workspace.getConfiguration("septran");
  const args = ["lsp", ...(workspace.isTrusted && settings.get("runLogic") ? ["--run-logic"] : [])];
  const server = { command: settings.get("command"), args, transport: TransportKind.stdio };
  client = new LanguageClient("septran", "SepTran", server, { documentSelector: [{ language: "septran-mapping" }] });
  return client.start();
}

function deactivate() { return client && client.stop(); }

module.exports = { activate, deactivate };
