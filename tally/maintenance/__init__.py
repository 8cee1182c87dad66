"""Maintenance of the database: background scheduler, rollup builder, retention, deletion, backup, restore, checks.

May import `rollups` and the packages below it.
"""
