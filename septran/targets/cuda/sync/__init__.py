"""Who waits for whom: channels, clusters, roles, groups of copies, ping-pong."""
