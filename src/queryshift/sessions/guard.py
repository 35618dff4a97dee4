"""The guard: settings that limit what queries can do to a session."""

from __future__ import annotations

from dataclasses import dataclass

from queryshift.errors import BadInput
from queryshift.support.deprecation import RenamedAttribute, renamed_arguments
from queryshift.support.setting_fields import check_values, setting

from .reference_queries import ReferenceQueries


@renamed_arguments(ordinary="reference")
@dataclass(frozen=True)
class Guard:
    """Limits what queries can do to a session: on by default, off in every benchmark.

    With a guard, a session learns more the less certain the source model is. After its first
    update, answers mix the predictions of both models (docs/guard.md). Without a guard a session is
    the bare method.

    Args:
        collapse: Largest share of the top-1 results that one candidate may gain compared with the
            source model, in batches of ten queries and more.
        spread: Smallest spread of queries to learn from, as a share of the gallery's spread.
        reference: A sample of normal queries. If a batch looks like them, the source model
            answers it and the session does not learn from it. A method that learns nothing
            (`Frozen`, vectors) only reports the shift score.

    Examples:
        >>> import queryshift as qs
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, qs.REST(), guard=qs.Guard(collapse=0.5))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

    collapse: float = setting(
        0.5, "ours", "largest share of top-1 results that one candidate may gain"
    )
    spread: float = setting(
        0.19, "ours", "smallest spread of queries to learn from, as a share of the gallery's"
    )
    reference: ReferenceQueries | None = setting(
        None, "ours", "a sample of normal queries", stored_as="ordinary"
    )

    ordinary = RenamedAttribute("reference")

    def __post_init__(self) -> None:
        check_values(self, "guard")
        if not 0 < self.collapse <= 1:
            raise BadInput(
                f"got Guard(collapse={self.collapse}), expected a share above 0 and at most 1."
            )
        if self.spread < 0:
            raise BadInput(f"got Guard(spread={self.spread}), expected a share of at least 0.")
        if not (self.reference is None or isinstance(self.reference, ReferenceQueries)):
            raise BadInput(
                f"reference is {self.reference!r}, expected a measured sample: "
                "ReferenceQueries.of(encoder, gallery, queries)."
            )
