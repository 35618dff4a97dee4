"""Answers and learning: queries decoded, answered in fair turns, gathered and learnt.

Start with `search.py`; `answer_queue.py` and `learning_queue.py` are the queues before the model.
"""
