"""What torch has beside operators for which it has no one function."""
