"""What the API is, for programs (`/openapi.json`), for people (`/docs`) and for monitors (`/health`)."""
