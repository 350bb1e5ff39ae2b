"""The detached process that owns one task. Its scripts are started by file path and use the standard library only."""
