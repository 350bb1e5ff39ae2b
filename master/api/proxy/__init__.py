"""`/proxy/<service>/…`: HTTP, WebSockets and TCP to ports of tasks, through the connections of their agents."""
