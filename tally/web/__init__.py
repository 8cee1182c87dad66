"""Pages, tracker, pixel, metrics and health: what is served beside the API.

May import `api`, `maintenance` and what is below them.
"""
