"""The names of all corruptions; importing them loads no corruption code."""

from __future__ import annotations

from itertools import product

_NOISE = ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise")
_BLUR = ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur")
_DIGITAL = ("contrast", "elastic", "pixelate", "jpeg")

MODALITIES = ("image", "text", "video", "audio")

NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "image": {
        "noise": _NOISE,
        "blur": _BLUR,
        "weather": ("snow", "frost", "fog", "brightness"),
        "digital": _DIGITAL,
    },
    "text": {
        "character": (
            "ocr",
            "character_insert",
            "character_replace",
            "character_swap",
            "character_delete",
        ),
        "word": (
            "synonym_replacement",
            "word_insertion",
            "word_swap",
            "word_deletion",
            "insert_punctuation",
        ),
        "sentence": ("formal", "casual", "passive", "active", "backtranslation"),
    },
    "video": {"noise": _NOISE, "blur": _BLUR, "digital": _DIGITAL},
    "audio": {
        "noise": ("gaussian_noise", "crowd", "traffic"),
        "weather": ("rain", "thunder", "wind"),
    },
}

_IMAGE = {"noise": "gaussian_noise", "blur": "motion_blur", "weather": "fog", "digital": "jpeg"}

REPRESENTATIVE: dict[str, dict[str, str]] = {
    "image": _IMAGE,
    "text": {"character": "ocr", "word": "synonym_replacement", "sentence": "backtranslation"},
    "video": {category: _IMAGE[category] for category in NAMES["video"]},
    "audio": {"noise": "traffic", "weather": "wind"},
}

COMBINATIONS: dict[str, tuple[str, ...]] = {
    "video": ("noise+blur", "noise+digital", "blur+digital", "noise+blur+digital"),
    "audio": ("noise+weather",),
    "image+text": tuple(map("+".join, product(NAMES["image"], NAMES["text"]))),
}
