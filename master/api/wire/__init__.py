"""From rows and live state to the JSON objects of the published API. Plain functions, one module per kind of object."""
