"""Live updates for programs: the WebSocket `/stream`."""
