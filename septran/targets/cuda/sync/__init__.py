"""Synchronisation: channels, clusters, roles, groups of copies, ping-pong."""
