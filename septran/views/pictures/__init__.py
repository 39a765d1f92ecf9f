"""What views are drawn with: HTML, pages, Graphviz drawings, colours."""
