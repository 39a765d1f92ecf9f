"""Panes of all stages whose lines light up together where they have one origin."""

from septran.views.links.build import linked
from septran.views.links.data import linked_data
from septran.views.links.model import Document, Graph, Linked, Pane, PassStep, Word

__all__ = ["Document", "Graph", "Linked", "Pane", "PassStep", "Word", "linked", "linked_data"]
