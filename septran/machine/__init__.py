"""What hardware is, as data."""
