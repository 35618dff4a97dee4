"""Images, videos, audio and text as users give them: the one room where they are read.

Models, laboratory and service all read here: arrays, PIL images, bytes, file objects and
`pathlib.Path`, within limits that are checked before anything is decoded. Text is never opened as a
path. Pillow, soundfile and PyAV are imported when the first such item is read.

Imports: `support`, `errors`. Start with `images.py`; `item_collection.py` reads whole folders and
tables, `item_reading.py` has what all kinds share, `limits.py` how large an item may be.
"""
