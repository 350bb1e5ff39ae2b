"""What providers sell now: memory of refusals and boot times, offers that may be bought, how fast to ask.

It is kept over restarts (`rows`), and decides nothing of what is bought.
"""
