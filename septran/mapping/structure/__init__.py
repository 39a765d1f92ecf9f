"""The structure of a task, whatever its names: products, operands' roles, loops and windows."""
