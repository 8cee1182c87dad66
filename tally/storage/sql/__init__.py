"""Statements for reading events, as functions that return (sql, parameters).

Pure: nothing here runs a statement. May import what `storage` may.
"""
