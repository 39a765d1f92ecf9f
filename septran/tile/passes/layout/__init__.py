"""Passes about where elements lie: tiles, panels, layouts, addresses."""
