"""What torch has beside operators for which it has no one function, and times of both in turns."""
