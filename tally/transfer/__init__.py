"""Export and import of events: files, the format of a line, and writing imported events.

May import `rollups` and the packages below it.
"""
