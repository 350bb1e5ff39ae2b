"""REST: parse, authorise, call one service method, shape the answer. Nothing else.

One package per resource: `routes.py` has its `router`, `wire.py` makes JSON objects from rows and live state,
`requests.py` has the request models where there are many. What resources share is in this package itself.
"""
