"""What counts of machine code are made of: listings that are read, rivals, and tables."""
