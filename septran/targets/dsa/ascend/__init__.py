"""Ascend C: the control program as a kernel in a vendor's language, and who runs it here."""
