"""The words the rules know: verbs that captions use, and the little words that end a phrase."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from .. import inflection


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TRANSITIVE = _words(
    """
    accept adjust admire apply approach arrange ascend attach attack attempt attend balance bang
    bathe beat bite blow board bounce braid break brush build burn bury buy carry carve cast
    catch celebrate change chase check chew circle clean clear climb close collect comb control
    cook cover cross cuddle cut decorate descend destroy dig direct display do drag draw drink
    drive drop dry eat embrace empty enjoy enter entertain examine explore feed fetch fight fill
    film fix flip fly fold follow give grab greet grill grind guard guide handle harvest help
    hit hold hug inspect install investigate juggle jump kick kiss knead knit lead lick lift
    light load lower make maneuver measure mix mow navigate observe offer open operate overlook
    pack paddle paint park pass peel perform pet photograph pick pilot place plant play polish
    pour practice prepare present pull pump punch push put raise read record repair rescue
    retrieve ride roll rope row sail scale scrub sell serve set sew shake shave shear shoot
    shovel show sing sip smell smoke sniff splash sport spray spread stack steal steer stir
    stretch strike stroke strum study surround sweep swing tackle take taste tattoo teach tease
    throw tie toss touch tow trim tune turn twirl twist unload use view visit wash watch water wave
    wear weave weld wind wipe wrap wrestle write
    """
)
# Without an object these are what most captions tell.
INTRANSITIVE = _words(
    """
    appear argue arrive bark battle be begin bend bike bow box camp chat cheer clap collide come
    compete converse cower crawl crouch cry cycle dance dine dive dress emerge exercise fall
    fish float flop frolic gallop gather gaze gesture get giggle glide go graze grin growl hang
    have head hike hop huddle jog kayak kneel land laugh lay lean leap lie listen live look
    lounge lunge march meander move nap paddle participate pause peek peer perch point pose
    prance pretend protest race reach react relax rest rise rock run rush scream seem sit skate
    skateboard ski skip sled sleep slide smile snarl snowboard snuggle soar speak speed spin
    splash sprawl spring sprint squat stand stare start stay step stick stoop stop stroll
    struggle sunbathe surf swim swoop talk think travel trot try tumble wade wait walk wander
    watch work wrestle yawn yell
    """
)
# "jump over a fence": the fence is jumped over; "pick up a stick": the stick is picked up.
WITH_PREPOSITION = {
    "jump": _words("over"),
    "leap": _words("over"),
    "look": _words("at through"),
    "gaze": _words("at"),
    "bark": _words("at"),
    "play": _words("with"),
    "climb": _words("over up"),
    "step": _words("over"),
    "talk": _words("to"),
    "listen": _words("to"),
    "chew": _words("on"),
    "pick": _words("up"),
    "check": _words("out"),
    "hold": _words("up onto"),
    "lift": _words("up"),
    "set": _words("up"),
    "put": _words("on up"),
    "take": _words("off"),
    "throw": _words("away up"),
    "knock": _words("over down"),
    "reach": _words("for"),
    "stare": _words("at"),
    "lean": _words("on against"),
    "pull": _words("on"),
    "bite": _words("on"),
    "wave": _words("at to"),
    "point": _words("at to"),
    "run": _words("over"),
    "fight": _words("over"),
    "laugh": _words("at"),
    "yell": _words("at"),
    "growl": _words("at"),
    "hop": _words("over"),
    "lunge": _words("at"),
    "peer": _words("at"),
    "work": _words("on"),
    "tug": _words("on at"),
}
# "A man waves flags", but "a man riding waves": forms that are nouns as often as verbs.
NOUN_PLURALS = _words(
    """
    bikes boards bows boxes brushes changes combs covers crosses drinks drops faces fish fishes
    flies grills guards guides hands heads helps lights looks masks paddles paints parks picks
    pitches places plants plays points pumps races records rides rocks rolls ropes rows sails
    scales sets shakes shots shows signs skateboards skates skis slides sleds smokes snowboards
    sports springs stacks starts steps sticks stops strokes studies surfboards swings tattoos
    ties tricks turns views visits walks watches waters waves winds works wraps
    """
)

DETERMINERS = _words(
    """
    a an the this that these those some several many few two three four five six seven eight
    nine ten eleven twelve both all another each every numerous various multiple one no any more
    """
)
PLURAL_DETERMINERS = _words(
    """
    two three four five six seven eight nine ten eleven twelve several many few these those both
    numerous various multiple
    """
)
POSSESSIVES = _words("his her its their my our your")
PRONOUNS = {
    "he": "him", "she": "her", "they": "them", "it": "it", "we": "us", "i": "me", "you": "you",
}  # fmt: skip
NEVER_SUBJECTS = _words(
    "himself herself itself themselves myself yourself ourselves each nothing way them him me us"
)
PREPOSITIONS = _words(
    """
    of in on at by with near from to into onto over under through across along around behind
    beside besides between among against towards toward down up off out inside outside past for
    above below beneath during before after without about atop upon next like amongst within
    alongside underneath away back together forward backward backwards sideways apart outdoors
    indoors ahead upside home
    """
)
ADVERBS = _words(
    "high low very close far fast hard warm too really so up-close mid-air midair still also"
)
CLAUSE_WORDS = _words(
    """
    who which that while as when where because if whose whom so but then until since although
    though than whilst just not
    """
)
BE = {"is": "is", "are": "are", "was": "was", "were": "were", "'s": "is"}
AUXILIARIES = _words(
    """
    is are was were am be been has have had can could will would may might must should seems
    appears gets looks
    """
)
COMPOUND_FIRSTS = _words("rock jet wind hang bungee kite water mountain body boogie horseback")
ADJECTIVES = _words(
    """
    red blue green yellow black white brown gray grey orange pink purple tan blond blonde golden
    dark light bright big small large little tiny huge young old elderly older younger tall
    short long wooden metal wet dry dirty clean muddy snowy sandy grassy rocky colorful
    colourful plaid front middle heavy empty full open busy calm steep narrow wide
    """
)
PROPER = _words(
    """
    asian african american chinese japanese indian european caucasian hispanic mexican dalmatian
    german english french spanish italian british christmas halloween santa i
    """
)
COUNT_NOUNS = _words(
    """
    man woman boy girl child kid baby toddler infant person dog cat horse bird puppy guy lady
    gentleman teenager teen couple group crowd family player surfer skier skateboarder
    snowboarder cyclist biker rider climber skater runner swimmer worker dancer musician singer
    soldier jogger golfer boxer chef waiter farmer fisherman student teacher bride groom tourist
    hiker kitten cow sheep goat elephant bear car truck bus train boat plane motorcycle bicycle
    bike individual mother father brother sister friend team jockey bulldog greyhound poodle
    collie
    """
)


PEOPLE = _words(
    """
    man men woman women boy boys girl girls child children kid kids baby babies toddler toddlers
    person people guy guys lady ladies couple family group crowd team someone individual
    individuals adult adults friend friends student students bride groom teen teens mother
    father male female
    """
)
ANIMALS = _words("dog dogs puppy puppies cat cats horse horses bird birds cow cows pony kitten")
COLLECTIVES = _words("group groups team crowd couple pair bunch number family lot row herd flock")
CLOTHES = _words(
    """
    shirt t-shirt shirts dress dresses jacket jackets coat coats hat hats cap suit suits top
    tops shorts pants jeans uniform uniforms vest vests sweater costume costumes bikini collar
    harness outfit outfits saris sari kimono kimonos headscarf headscarves scarf pajamas pink
    clothes clothing swimsuit trunks skirt hoodie helmet gear overalls robe robes sunglasses
    glasses
    """
)
COLOURS = _words("red blue green yellow black white brown gray grey orange pink purple tan")
# One wears these; in the other clothes one is dressed.
ACCESSORIES = _words(
    """
    dress dresses hat hats cap collar harness glasses sunglasses helmet scarf headscarf
    headscarves
    """
)
PICTURES = _words("closeup close-up view scene image portrait shot")
# What someone does besides the thing that the caption tells: "a man wearing a hat walks".
ACCOMPANYING = _words("wear hold carry")
POSTURES = _words("stand sit kneel lie lay lean crouch squat walk wait rest lounge perch")
# "a library reading room": what a verb in -ing before it only describes.
DESCRIBED_BY_VERB = _words(
    """
    area bag bags bike board boat car cart center court equipment event field fountain game gear
    glove gloves house jacket lot machine mall match pad pole pool pot ramp ring rink room shoes
    stick suit suits track trunks
    """
)


class Form(NamedTuple):
    """One form of a verb: "ing", "s", "base", "past" or "participle" of a lemma."""

    lemma: str
    kind: str


@cache
def verb_forms() -> dict[str, tuple[Form, ...]]:
    """Every form of the known verbs."""
    table: dict[str, tuple[Form, ...]] = {}
    for lemma in sorted(TRANSITIVE | INTRANSITIVE):
        for kind, form in (
            ("ing", inflection.ing(lemma)),
            ("s", inflection.third_person(lemma)),
            ("base", lemma),
            ("past", inflection.past(lemma)),
            ("participle", inflection.participle(lemma)),
        ):
            table[form] = (*table.get(form, ()), Form(lemma, kind))
    return table


def verb_form(word: str, *kinds: str) -> Form | None:
    """`word` as one of the wanted forms of a known verb."""
    return next((form for form in verb_forms().get(word, ()) if form.kind in kinds), None)
