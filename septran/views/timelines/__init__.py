"""When what ran: one kind of timeline for every processor."""
