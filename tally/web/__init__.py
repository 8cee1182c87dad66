"""Pages, tracker, pixel, metrics and health: what is served beside the API.

May import `api` and what is below it.
"""
