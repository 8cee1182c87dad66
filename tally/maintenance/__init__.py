"""Background work and care of the database: scheduler, backup, restore, retention, deletion, checks of `doctor`.

May import `rollups` and what is below it.
"""
