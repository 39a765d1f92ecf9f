"""Text, HTML and Graphviz views of the stages."""
