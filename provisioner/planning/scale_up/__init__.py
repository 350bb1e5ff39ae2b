"""Which machines to buy: what each kind of gang may buy in which order, and what limits, budgets and quotas leave.

`quotes` and `purchase` choose, `purchase_list` is what comes of it. Pure.
"""
