"""Columns of days: their format and statements, writing and reading them, and rows that are made from them.

Modules that need numpy (format, write, rows, read, measurements) are imported when the first day is written or read.
May import `storage` and the packages below it.
"""
