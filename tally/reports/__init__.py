"""Reports: one report per file, from a Scope (website, range, filters) to figures.

May import `rollups` and what is below it. Nothing here is about HTTP.
"""
