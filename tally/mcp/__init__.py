"""The Model Context Protocol at /mcp: tools by which assistants read figures with an API key.

A tool is a report of the read API (tally/api/reports.py), with its parameters and its answer.
"""
