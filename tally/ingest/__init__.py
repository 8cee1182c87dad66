"""The path of an event from the request to the committed row: admission, group commit, rejected events, realtime.

May import `reports`, `http` and what is below them.
"""
