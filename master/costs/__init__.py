"""What the machines cost, by month and by whom: booked from the lives of machines and the allocations on them."""
