"""Client of Tally, a self-hosted analytics server: sends events, reads statistics, manages websites."""

from tally_client.collect import CollectClient, Visitor
from tally_client.connection import Filters, Moment, TallyError
from tally_client.read import ManageClient, ReadClient

__all__ = ["CollectClient", "Filters", "ManageClient", "Moment", "ReadClient", "TallyError", "Visitor"]
