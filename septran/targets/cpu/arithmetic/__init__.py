"""What vector code computes of elements: functions, conversions, divisions, sums that wrap."""
