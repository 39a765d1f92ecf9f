"""Arithmetic of vector code: functions, conversions, divisions, sums that wrap."""
