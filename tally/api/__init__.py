"""The read API and the account API: parameters, authorisation, one file a subject.

May import `ingest` and what is below it.
"""
