"""The interpreter of tile programs, with the execution and channels that the verifier shares."""
