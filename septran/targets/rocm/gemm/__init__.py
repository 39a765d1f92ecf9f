"""Products by AMD's matrix cores."""
