"""Panes of all stages whose lines light up together where they have one origin."""

from septran.explain.links.build import linked
from septran.explain.links.data import linked_data
from septran.explain.links.model import Document, Graph, Linked, Pane, PassStep, Word

__all__ = ["Document", "Graph", "Linked", "Pane", "PassStep", "Word", "linked", "linked_data"]
