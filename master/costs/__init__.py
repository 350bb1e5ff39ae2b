"""What the machines cost, by month and by whom: booked from the lives of machines and the allocations on them.

`recorder` writes what is final, `open_machines` keeps what is not, `reports` sums it up for people.
"""
