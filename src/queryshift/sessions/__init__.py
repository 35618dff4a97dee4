"""Sessions: the pure step from state to state, and the one object that changes.

Holds settings, state and its file, batch statistics, guard, reference queries, background updates.
Imports: all rooms above (`support` to `methods`).
Start with `session.py`, then `step.py`, `policy.py`.
"""
