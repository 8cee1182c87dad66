"""Summaries kept ahead of time: what is counted by quarter hour, day and block of days, built and verified.

One file a kind of summary. May import `storage` and what is below it.
"""
