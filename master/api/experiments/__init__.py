"""Experiments: submission, lists, actions.

`actions` are of one experiment, `bulk` of many at once; `preview_gc` says what other keep counts would delete.
"""
