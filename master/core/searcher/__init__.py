"""Hyperparameter search: events in, actions out. Pure; the same seed and events give the same actions.

`search.py` is the door (`Search`, `replay`), `types.py` the events and actions, `event_json.py` and `state_json.py`
what the store keeps, `rung_view.py` what screens show. `settings.py` picks the method for a configuration.
"""
