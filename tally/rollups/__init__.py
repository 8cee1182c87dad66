"""Rollups: precomputed counts by quarter hour, day and block of days, how they are built.

One module for each kind of rollup. May import `storage` and the packages below it.
"""
