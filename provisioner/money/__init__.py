"""What machines cost: prices by list and of the day, budgets, and what one machine cost over its life.

`master.prices` refreshes them; how they are counted is pure.
"""
