"""What a configuration would have cost and how long its users would have waited: a trace, played in virtual time.

The scheduler, the planner and the fleet are the real ones (`decide`, `Provisioner`). Simulated are the work (`trace`,
`work`), the machines with their stock-outs and interruptions (`machines`), and time (`replay`).
"""
