"""What happens to every request before a route sees it: middlewares, proxies, hosts, rules for browsers, bodies.

Nothing here knows a resource; routes and their permits are in the packages beside it.
"""
