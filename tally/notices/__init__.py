"""Notices: messages about an account that leave the server by its channels, such as a webhook or ntfy.

`outbox.py` stores them, `sender.py` sends what is due, `requests.py` has the request of each kind of channel,
`addresses.py` decides to which addresses the server connects, `delivery.py` sends one request, `channels.py` has the
channels, `texts.py` the texts in each language, `feed.py` the Atom feed, `server_problems.py` what the server reports
of itself.
"""
