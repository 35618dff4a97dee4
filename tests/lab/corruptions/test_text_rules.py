"""Sentence-level text corruptions by rule: what they write, and what they leave alone."""

import pytest
from photo_captions import WRITTEN

from queryshift.errors import BadInput, UnknownName
from queryshift.lab.corruptions import text
from queryshift.lab.corruptions.text import inflection

PASSIVE = {
    "A man riding a wave on a yellow surfboard.": (
        "A wave being ridden on a yellow surfboard by a man."
    ),
    "Two women are carrying baskets of fruit.": "Baskets of fruit are being carried by two women.",
    "The goalkeeper catches the ball.": "The ball is caught by the goalkeeper.",
    "The boy threw the ball": "The ball was thrown by the boy",
    "Dogs chase a cat.": "A cat is chased by dogs.",
    "She is holding a cup.": "A cup is being held by her.",
    "A man playing with his dog.": "A dog being played with by a man.",
    "A boy kicks a ball while a dog watches.": "A ball is kicked by a boy while a dog watches.",
    "A dog carries a toy in its mouth.": "A toy is carried by a dog in its mouth.",
    "A man takes a blue and white ball.": "A blue and white ball is taken by a man.",
    "A person wearing a hat rides a bike.": "A bike is ridden by a person wearing a hat.",
}
NO_PASSIVE = [
    "Two dogs are playing in the snow.",
    "The players are hugging each other.",
    "A man asleep in a library reading room.",
    "A closeup of a man holding a cup.",
    "Three dogs, one holding a ball, in the snow.",
    'A sign says "eat fruit".',
    "A kite is being flown by two boys.",
    "A girl throws a ball and runs away.",
    "A woman sits on a bench reading a book.",
]
ACTIVE = {
    "A ball is thrown by a girl in a pink shirt.": "A girl in a pink shirt throws a ball.",
    "The cake was decorated by two students.": "Two students decorated the cake.",
    "A kite is being flown by two boys on the beach.": "Two boys on the beach are flying a kite.",
    "A wave being ridden by a man": "A man riding a wave",
    "A dog seen by the lake.": "A dog seen by the lake.",
    "A car is parked by the road.": "A car is parked by the road.",
    "A woman is reading.": "A woman is reading.",
}
FORMAL = {
    "a man riding a bike": "A man riding a bicycle.",
    "It's a guy who doesn't smile!": "It is a man who does not smile!",
    "A big pic of a kid .": "A large photograph of a child.",
    "A person jumps.": "An individual leaps.",
    "The dog's toy": "The dog's toy.",
}
CASUAL = {
    "A man is riding a bicycle.": "guy is riding a bike",
    "Two children are not looking at a car .": "two kids aren't checking out a car",
    "A group of people beside a large motorcycle": "bunch of folks next to a big motorbike",
    "It is a photograph.": "it's a pic",
}


def by_rule(name, caption):
    return text.sentence(name)(caption, 5, None)


@pytest.mark.parametrize("name", ["passive", "active", "formal", "casual"])
def test_known_captions_come_out_as_expected(name):
    pairs = {"passive": PASSIVE, "active": ACTIVE, "formal": FORMAL, "casual": CASUAL}[name]
    assert {caption: by_rule(name, caption) for caption in pairs} == pairs


def test_what_a_rule_is_unsure_of_is_left_alone():
    assert [by_rule("passive", caption) for caption in NO_PASSIVE] == NO_PASSIVE


@pytest.mark.parametrize(
    ("name", "least"), [("formal", 0.2), ("casual", 0.9), ("passive", 0.5), ("active", 0.02)]
)
def test_rules_change_their_share_of_captions(name, least):
    changed = [by_rule(name, caption) != caption for caption in WRITTEN]
    assert sum(changed) >= least * len(WRITTEN)


@pytest.mark.parametrize("name", ["passive", "active", "formal", "casual"])
@pytest.mark.parametrize(
    "caption",
    ["", "  ", "!!", "一个男人在冲浪", "человек на волне", "Ein Mann reitet eine Welle."],
)
def test_captions_without_english_words_are_left_alone(name, caption):
    assert by_rule(name, caption) == caption


@pytest.mark.parametrize("name", ["passive", "active", "formal", "casual"])
def test_a_caption_of_one_word_is_no_trouble(name):
    assert by_rule(name, "Surfing").strip(".").lower() == "surfing"


def test_rules_never_call_anything_back_translation():
    for refused in (text.backtranslation, text.sentence("backtranslation")):
        with pytest.raises(BadInput, match=r"needs translation models.*`run --translator THERE"):
            refused("A dog.", 5, None)


def test_unknown_names_and_stray_models_are_refused():
    with pytest.raises(UnknownName, match='did you mean "passive"'):
        text.sentence("pasive")
    with pytest.raises(UnknownName, match='no backend "model"; did you mean "models"'):
        text.sentence("formal", backend="model")
    with pytest.raises(BadInput, match='say backend="models"'):
        text.sentence("formal", models=("somewhere",))


def test_verb_forms():
    verbs = {"ride": "riding rode ridden rides", "hug": "hugging hugged hugged hugs"}
    verbs |= {"carry": "carrying carried carried carries", "lie": "lying lay lain lies"}
    verbs |= {"catch": "catching caught caught catches", "open": "opening opened opened opens"}
    functions = (inflection.ing, inflection.past, inflection.participle, inflection.third_person)
    for verb, forms in verbs.items():
        assert [function(verb) for function in functions] == forms.split()


def test_noun_forms():
    nouns = {
        "dog": "dogs",
        "child": "children",
        "fireman": "firemen",
        "bus": "buses",
        "fly": "flies",
    }
    assert {noun: inflection.plural(noun) for noun in nouns} == nouns
    assert all(map(inflection.is_plural, nouns.values()))
    assert not any(map(inflection.is_plural, ["dress", "bus", "tennis", "man"]))
    assert [inflection.article(word) for word in ("hour", "unicycle", "apple")] == ["an", "a", "an"]
