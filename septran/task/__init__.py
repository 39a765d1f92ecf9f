"""Task Lang: what an algorithm expert writes."""
