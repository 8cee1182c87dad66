"""The database of the command `demo`: half a year of invented traffic of three websites.

`sites` has the websites as tables, `traffic` draws events from them, `build` writes the file. May import
`ingest`, `transfer` and what is below them.
"""
