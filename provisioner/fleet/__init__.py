"""The life of machines: their states (pure), and the loop that looks, plans, writes the intent, acts and looks again.

`reconciler` is the loop, `reconcile_pass` and `decide` one pass of it, `due_calls` and `calls` what is sent,
`snapshot` what others see, `instances` and `state` what it knows, `intents` and `launches` what it has asked for.
"""
