"""Products: wgmma, mma.sync, and multiply and add of single elements."""
