"""The prices that count now: a file in the data folder, refreshed from vendors, shown by `windlass master prices`."""
