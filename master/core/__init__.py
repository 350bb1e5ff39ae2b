"""The shared core: pure functions and state machines. No I/O, no clock, no database, no logging."""
