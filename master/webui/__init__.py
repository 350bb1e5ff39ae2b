"""Pages for browsers. So far those that the CLI leads to: the login, tasks to open, the master's own address."""
