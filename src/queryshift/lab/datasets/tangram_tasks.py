"""The five ways to ask the embedded world, by name; loads nothing that makes it."""

COMPOSED = "image+text"
"""The modality of a query that is an image and words on how to change it."""

TASKS = {
    "image": ("tangram", "image", "text"),
    "text": ("tangram", "text", "image"),
    "video": ("tangram-clips", "video", "audio"),
    "audio": ("tangram-clips", "audio", "video"),
    "composed": ("tangram-edits", COMPOSED, "image"),
}
"""Task to the model that answers it, the queries' modality and the candidates'."""

SENTENCE = {"sentence": ("tangram", "text", "text")}
"""Text to text: a caption asks for the other captions of its scene. In no table of the five."""
