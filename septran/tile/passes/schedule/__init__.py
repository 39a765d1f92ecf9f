"""Passes about order: who does what when, and who waits for whom."""
