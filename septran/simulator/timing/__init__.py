"""When each command runs, and what it costs."""
