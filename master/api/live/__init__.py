"""News for open pages: the WebSocket `/api/v1/windlass/live`."""
