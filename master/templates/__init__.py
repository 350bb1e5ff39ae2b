"""Templates of configuration: stored here, applied by whoever launches something.

How they are laid under a configuration is in `master.core.expconf.templates`.
"""
