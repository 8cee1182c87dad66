"""Comparison of the server with a slow plain model over random histories."""
