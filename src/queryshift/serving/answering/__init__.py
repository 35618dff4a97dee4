"""Answers and learning: queries decoded, answered in fair turns, gathered and learnt.

Start with `search.py`; `answers.py` and `learning_queue.py` are the queues before the model.
"""
