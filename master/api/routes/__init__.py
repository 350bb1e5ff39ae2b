"""One module per resource, each with a `router`. Thin: parse, permit, call one service, shape the answer."""
