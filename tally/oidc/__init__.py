"""Sign-in by an OpenID provider: its metadata, the requests of the authorisation code flow, and its ID tokens.

Who the person of a token is, is decided by tally/api/oidc.py and tally/accounts/identities.py.
"""

CALLBACK = "/sign-in/oidc/callback"
"""Where a provider leads back, below the public address of the server."""
