"""What arrives and from whom: validation, URLs, User-Agents, countries, visitors and visits.

Rules as tables and pure functions. May import the vocabulary alone: no SQL, no aiohttp, no access to the database.
"""
