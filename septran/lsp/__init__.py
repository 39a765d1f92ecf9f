"""A language server for mapping and machine files: ``septran lsp`` (``septran[lsp]``)."""
