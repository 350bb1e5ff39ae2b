"""Provider sections of master.yaml: one model each, with its defaults and checks, read by configuration and providers.

Nothing here imports a provider, so that configuration does not.
"""
