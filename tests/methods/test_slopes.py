"""Every loss that carries a gradient, against finite differences in float64.

What a loss detaches (weights, limits, the search) is held still, as its gradient says it is.
"""

from collections.abc import Callable

import pytest
import torch
from finite_differences import Still
from fixed_retrieval import GALLERY, SIZE, pairs, queries
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from queryshift.methods import COME, EATA, PL, READ, REST, SHOT, TCR, Method, Refined, Tent
from queryshift.methods.decoupled import drift
from queryshift.methods.eata import Familiar
from queryshift.retrieval.forward import Forward
from queryshift.retrieval.refinement import refined

K, TAU = 2, 0.2
LEFT_OUT = torch.tensor([(row, column) for row in range(SIZE) for column in (row, 12)])


def slopes_agree(function: Callable[[Tensor], Tensor]) -> bool:
    still = Still(function)
    still(queries())  # hold what is detached at the point itself
    return torch.autograd.gradcheck(still, (queries().requires_grad_(),))


LOSSES: dict[str, tuple[Method, object]] = {
    "tent": (Tent(temperature=TAU), None),
    "pl": (PL(temperature=TAU, confidence=0.4), None),
    "shot": (SHOT(temperature=TAU, confidence=0.4), None),
    "read": (READ(temperature=TAU), None),
    "come": (COME(temperature=TAU), None),
    "eata": (EATA(temperature=TAU), Familiar(chosen=torch.arange(SIZE) % 2 == 0)),
    "tcr": (TCR(temperature=TAU), pairs(entropy_limit=1.2)),
    "rest": (REST(temperature=TAU, neighbours=K), pairs(entropy_limit=1.9)),
    "rest, merged": (
        REST(temperature=TAU, neighbours=K, duplicates="merge"),
        pairs(entropy_limit=1.9),
    ),
    "rest, own copies hidden": (
        REST(temperature=TAU, neighbours=K, own_copies=False),
        pairs(entropy_limit=1.9),
    ),
    "rest, clamped": (
        REST(temperature=TAU, neighbours=K, consistency="clamp"),
        pairs(entropy_limit=1.9),
    ),
    "tent+refined": (Refined(Tent(temperature=TAU), neighbours=K), None),
    "come+refined": (Refined(COME(temperature=TAU), neighbours=K), None),
    "read+refined": (Refined(READ(temperature=TAU), neighbours=K), None),
}


@pytest.mark.parametrize("exclude", [None, LEFT_OUT], ids=["all", "some left out"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, exclude):
    method, memory = LOSSES[name]
    assert slopes_agree(lambda vectors: method.loss(Forward(vectors, GALLERY, exclude), memory))


@pytest.mark.parametrize("duplicates", ["keep", "merge"])
def test_drift(duplicates):
    source = Forward(queries(seed=4), GALLERY)
    assert slopes_agree(
        lambda vectors: drift(source, refined(Forward(vectors, GALLERY), K, TAU, duplicates))
    )


def test_what_is_detached_would_otherwise_show():
    """Without holding still, finite differences disagree: the weights really are detached."""
    method, memory = LOSSES["tcr"]
    with pytest.raises(GradcheckError):
        torch.autograd.gradcheck(
            lambda vectors: method.loss(Forward(vectors, GALLERY), memory),
            (queries().requires_grad_(),),
        )
