"""The HTTP server below the routes: sockets, connection limits, request bodies, responses, formats and logging.

Nothing here depends on analytics. May import `events` (client addresses), `accounts` and the modules of `tally`.
"""
