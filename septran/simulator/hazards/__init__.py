"""Hazards: uses of the same bytes that nothing orders, and reads of what nobody wrote."""
