"""Kernels with a host program in C, for devices whose driver a program loads itself."""
