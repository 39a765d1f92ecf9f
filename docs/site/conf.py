"""Settings of the documentation site; `docs/site/build.py` gathers its pages beside this file."""

from __future__ import annotations

import septran

project = "SepTran"
author = "SepTran's authors"
release = version = septran.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_nb"]
html_theme = "furo"
html_title = f"SepTran {release}"
html_show_sourcelink = False
html_copy_source = False
templates_path: list[str] = []
exclude_patterns = ["_build"]

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # what is stored is compared with fresh outputs elsewhere
nb_merge_streams = True
# Words of dtypes and dimensions in annotations are no classes; a notebook's views have data that
# only JupyterLab reads.
suppress_warnings = ["mystnb.unknown_mime_type", "mystnb.lexer"]
