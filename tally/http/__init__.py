"""The HTTP server below the routes: sockets, connection limits, request bodies, responses, formats and logging.

Nothing here depends on analytics. May import `events` (client addresses, sizes of requests) and the modules of `tally`.
"""
