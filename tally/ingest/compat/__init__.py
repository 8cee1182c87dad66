"""The wire formats of other analytics systems, translated to events of Tally.

One file a system: each turns a request into a Batch, which takes the same admission as POST /api/collect
(tally/ingest/collector.py), and writes the answer that the system's clients expect. `formats.py` has the table,
`endpoint.py` the handler, `requests.py` what the files share.
"""
