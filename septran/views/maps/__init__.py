"""Where data is and how it moves: elements, layouts, memories, accesses, costs by line."""
