"""A model with an encoder for sounds and one for text, of the bundled ones: they never met."""

import queryshift as qs


def make():
    return {"audio": qs.load("tangram-clips")["audio"], "text": qs.load("tangram")["text"]}
