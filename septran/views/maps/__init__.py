"""Maps of data and its movement: elements, layouts, memories, accesses, costs by line."""
