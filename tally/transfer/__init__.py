"""Events out of and into files: export, import, and the format of a line.

May import `rollups` and what is below it.
"""
