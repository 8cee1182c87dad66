"""Rollups: precomputed counts by quarter hour, day and block of days, how they are built, verified and repaired.

One module for each kind of rollup. May import `storage` and the packages below it.
"""
