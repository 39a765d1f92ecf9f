"""The means of drawing views: HTML, pages, Graphviz drawings, colours."""
