"""Tests through HTTP, against the application in this process or a real server."""
