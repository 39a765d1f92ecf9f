"""What a hardware expert writes, and how it meets a logic."""
