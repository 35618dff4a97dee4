"""Pictures, sounds, films and text as users hand them over: arrays, PIL images, bytes, files.

Imports: `support`. Start with `items.py`.
"""
