"""The operator library: one logic file an operator."""
