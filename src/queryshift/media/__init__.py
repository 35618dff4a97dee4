"""Reading images, videos, audio and text as users give them.

Models, laboratory and service all use this folder. Items are arrays, PIL images, bytes, file
objects or `pathlib.Path`; limits are checked before anything is decoded. Text is never opened as a
path. Pillow, soundfile and PyAV are imported when they are first needed.

Imports: `support`, `errors`. Start with `images.py`; `item_collection.py` reads whole folders and
tables, `time_stamps.py` sorts rows by time, `item_reading.py` has shared code, `limits.py` the
largest sizes of items.
"""
