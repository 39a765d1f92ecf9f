"""When the units of a machine work and wait, as far as a program's steps tell it without data.

A program is given as `steps`; the `clock` works out when each unit works, as hardware with in-order
queues does. A loop that has come to a steady state is not walked to its end (`steady`).
"""
