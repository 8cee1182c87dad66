"""Client of Tally, a self-hosted analytics server: sends events, reads statistics."""

from tally_client.collect import CollectClient, Visitor
from tally_client.connection import Filters, Moment, TallyError
from tally_client.read import ReadClient

__all__ = ["CollectClient", "Filters", "Moment", "ReadClient", "TallyError", "Visitor"]
