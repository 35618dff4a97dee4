"""What formal and casual captions call things, phrase by phrase."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from .. import inflection
from ..caption_words import like_case


def _pairs(text: str) -> dict[str, str]:
    """Rows "plain > styled; plain > styled", the longest phrases first so that they win."""
    rows = (row.split(">") for row in text.replace("\n", ";").split(";") if row.strip())
    pairs = {" ".join(plain.split()): " ".join(styled.split()) for plain, styled in rows}
    return dict(sorted(pairs.items(), key=lambda pair: -len(pair[0])))


FORMAL = _pairs("""
kid > child; kids > children; guy > man; guys > men; lady > woman; ladies > women
mom > mother; dad > father; grandma > grandmother; grandpa > grandfather
teen > teenager; teens > teenagers; cop > police officer; cops > police officers
doggy > dog; doggie > dog; person > individual; people > individuals
little boy > young boy; little girl > young girl; little kid > young child
little boys > young boys; little girls > young girls; little kids > young children
little child > young child; little children > young children
dirt bike > off-road motorcycle; dirt bikes > off-road motorcycles; motorbike > motorcycle
bike > bicycle; bikes > bicycles; biker > cyclist; bikers > cyclists; biking > cycling
plane > airplane; photo > photograph; photos > photographs; pic > photograph
taking a picture > taking a photograph; takes a picture > takes a photograph
take a picture > take a photograph; for a picture > for a photograph
taking pictures > taking photographs; takes pictures > takes photographs
for the camera > before the camera
tv > television; phone > telephone; cell phone > mobile telephone; cellphone > mobile telephone
fridge > refrigerator; couch > sofa; big > large; huge > enormous
lots of > many; a bunch of > a number of; bunch of > number of
a couple of > two; a few > several; many > numerous
next to > beside; in front of > before; on top of > atop; close to > near; made out of > made of
getting ready to > preparing to; gets ready to > prepares to; get ready to > prepare to
trying to > attempting to; tries to > attempts to; try to > attempt to
looking at > observing; looks at > observes; look at > observe
watching > observing; watches > observes; looks on > observes; look on > observe
standing on > standing upon; stands on > stands upon; stand on > stand upon; lies on > lies upon
lying on > lying upon; laying on > lying upon; rests on > rests upon; resting on > resting upon
jumping > leaping; jumps > leaps; bungee jumping > bungee jumping; jumping rope > jumping rope
show jumping > show jumping; big brother > elder brother; big sister > elder sister
 holding up > raising; holds up > raises
picks up > lifts; picking up > lifting; hanging out with > spending time with
talking to > conversing with; talks to > converses with; talking on > speaking on
talking > conversing; talks > converses; chatting > conversing
eating a > consuming a; eating an > consuming an; eating the > consuming the
eats a > consumes a; eats an > consumes an; eating some > consuming some
doing > performing; does > performs
using > making use of; uses > makes use of; shows > displays; showing > displaying
running after > pursuing; runs after > pursues; chasing > pursuing; chases > pursues
climbing a > ascending a; climbing the > ascending the; climbing up > ascending
climbs a > ascends a; climbs the > ascends the; climbs up > ascends; climb a > ascend a
climbs down > descends; climbing down > descending; helping > assisting; helps > assists
buying > purchasing; buys > purchases; fixing > repairing; fixes > repairs; yelling > shouting
grinning > smiling; starts to > begins to; riding down > descending; going down > descending
stuff > items; cute > charming; playing around > playing; all over > throughout
shirtless > bare-chested; watching a movie > watching a film; watching tv > watching television
inside a > within a; inside the > within the; inside an > within an
""")

# Said of people and animals; a bowl is not seated on a table.
SEATED = _pairs("""
sitting on > seated upon; sits on > is seated upon; sitting down > seated; sitting > seated
sits > is seated
""")

CASUAL = _pairs("""
man > guy; men > guys; gentleman > guy; woman > lady; women > ladies; male > guy; female > lady
child > kid; children > kids; youth > kid; infant > baby; mother > mom; father > dad
grandmother > grandma; grandfather > grandpa; teenager > teen; teenagers > teens
police officer > cop; police officers > cops; puppy > pup; puppies > pups
a person > someone; an individual > someone; people > folks; individuals > folks
persons > folks; young boy > little boy; young girl > little girl; young child > little kid
young children > little kids; young boys > little boys; young girls > little girls
a group of people > a bunch of folks; a group of > a bunch of; group of > bunch of
several > a bunch of; numerous > lots of; many > lots of; various > all kinds of
bicycle > bike; bicycles > bikes; bicyclist > biker; bicyclists > bikers; cyclist > biker
cyclists > bikers; motorcycle > motorbike; motorcycles > motorbikes; airplane > plane
photograph > pic; photographs > pics; picture > pic; pictures > pics; photo > pic
television > tv; telephone > phone; cellphone > phone; refrigerator > fridge; sofa > couch
automobile > car; large > big; enormous > huge; small > little; tiny > teeny
beside > next to; near > by; atop > on top of; outdoors > outside; beautiful > pretty
attempting to > trying to; attempts to > tries to; attempt to > try to
performing > doing; performs > does; perform > do; prepares to > gets ready to
preparing to > getting ready to; observing > watching; observes > watches
looking at the camera > looking at the camera; looks at the camera > looks at the camera
look at the camera > look at the camera
looking at > checking out; looks at > checks out; look at > check out
consuming > eating; consumes > eats; seated > sitting; leaping > jumping; leaps > jumps
smiling > grinning; smiles > grins; smile > grin; conversing with > chatting with
conversing > chatting; talking to > chatting with; talks to > chats with
talking > chatting; talks > chats; laughing > cracking up; relaxing > chilling
relaxes > chills; relax > chill; resting > chilling; rests > chills; grabbing > nabbing
observe > watch; carrying > lugging; carries > lugs; tossing > chucking; throwing > chucking
throws > chucks; tosses > chucks; racing > zooming; gathers > gets together
gathered > hanging out; enjoying > loving; enjoys > loves; enjoy > love
""")

# Only a short subject takes the "'s" of "a guy's riding a wave".
_DOERS = "guy|lady|kid|boy|girl|dog|baby|someone|he|she|it|cat|horse|biker|pup|mom|dad|rider|player"

_CONTRACTED = {
    "won't": "will not",
    "can't": "cannot",
    "n't": " not",
    "it's": "it is",
    "he's": "he is",
    "she's": "she is",
    "that's": "that is",
    "there's": "there is",
    "they're": "they are",
    "i'm": "I am",
    "we're": "we are",
}


def restyled(text: str, phrases: Mapping[str, str]) -> str:
    """`text` with every phrase of the table in its other style, capital letters kept."""
    choice = "|".join(map(re.escape, phrases))
    pattern = re.compile(rf"(?<![\w'’-])(an? )?({choice})(?![\w'’-])", re.IGNORECASE)
    return pattern.sub(lambda found: _replaced(found[1], found[2], phrases), text)


def _replaced(article: str | None, phrase: str, phrases: Mapping[str, str]) -> str:
    if article and (whole := phrases.get(f"{article}{phrase}".lower())):
        return like_case(whole, article)
    instead = phrases[phrase.lower()]
    if not article:
        return like_case(instead, phrase)
    return f"{like_case(inflection.article(instead), article)} {instead}"


def expanded(text: str) -> str:
    """ "doesn't" to "does not", "it's" to "it is"; possessives stay."""
    text = text.replace("’", "'")
    for short, full in _CONTRACTED.items():
        start = "" if short == "n't" else r"\b"
        text = re.sub(rf"{start}{short}\b", partial(_written_out, full), text, flags=re.I)
    return text


def _written_out(full: str, found: re.Match[str]) -> str:
    return like_case(full, found[0])


def contracted(text: str) -> str:
    """ "is not" to "isn't", "a guy is riding" to "a guy's riding"."""
    text = re.sub(r"\b(is|are|was|were|does|do|did|has|have) not\b", r"\1n't", text)
    text = re.sub(r"\bcannot\b|\bcan not\b", "can't", text)
    return re.sub(rf"\b({_DOERS}) is (?=\w+ing\b)", r"\1's ", text)
