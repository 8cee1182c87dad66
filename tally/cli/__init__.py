"""The command `analytics-server`: one file a group of commands.

May import every other package; none imports it.
"""
