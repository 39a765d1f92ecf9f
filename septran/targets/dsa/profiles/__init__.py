"""What a simulated run did, as data, text, and a trace."""
