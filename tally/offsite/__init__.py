"""Places on other machines for backups: S3-compatible storage, SFTP, WebDAV; names of files there, and encryption.

No module here uses the database. May import the vocabulary (tally/*.py) only; libraries of the extras `s3`, `sftp` and
`age` are imported when they are first used.
"""
