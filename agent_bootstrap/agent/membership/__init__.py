"""How a machine becomes an agent and stops being one: `windlass agent join`, `drain` and `leave`.

An announced end (`drain`) and the end of an agent that nobody needs any more belong to it.
"""
