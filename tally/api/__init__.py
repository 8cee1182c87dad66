"""The read API and the account API: parameters, authorisation, one file a subject.

May import `reports`, `ingest` and what is below them.
"""
