"""News for open pages: that something which they show was changed, told to those who may see it."""
