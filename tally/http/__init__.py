"""Sockets, connection limits, bodies, responses, formats and logging. Nothing here is about analytics.

May import `events`, `accounts` and the vocabulary.
"""
