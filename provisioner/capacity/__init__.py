"""What providers sell now: memory of refusals and boot times, offers that may be bought, how fast to ask."""
