"""The model of hardware, as data that machine files describe."""
