"""From text to plain documents: YAML and JSON with the lines of errors, older forms, one document over another.

What a document must hold is said by `models`. Pure.
"""
