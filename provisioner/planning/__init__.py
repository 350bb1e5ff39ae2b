"""Pure decisions: demand, fleet, offers and limits in; launches, terminations, moves and reasons out.

`planner.plan` is where it begins, `plan_types` is what it reads and answers.
"""
