"""How long connections to the master are kept while nobody asks anything: its clients give them up before it does.

A request on a connection that the master is closing is lost, and the client cannot tell whether it was read.
"""

MASTER_KEEPS_S = 5
CLIENT_KEEPS_S = 3.0
