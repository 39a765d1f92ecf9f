"""Interactive notebook views over SepTran's stage objects."""
