"""AMD GPUs: machines and mappings can be written and interpreted; no code is generated yet."""
