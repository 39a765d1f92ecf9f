"""What a logic file is made of: definitions, constructs, functions, and what Python refuses."""
