"""Statistics: one report a file, a Scope (website, range, filters) in, figures out.

May import `rollups` and what is below it. Nothing here is about HTTP.
"""
