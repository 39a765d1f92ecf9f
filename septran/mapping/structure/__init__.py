"""What a task computes, whatever its names: products, their operands' roles, loops and windows."""
