"""What passes, the verifier and targets ask about a tile program."""
