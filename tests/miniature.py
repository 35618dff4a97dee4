"""Small encoders and streams that the tests of the core share."""

import gc
import types
from dataclasses import fields, is_dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from queryshift import Encoder, Gallery
from queryshift.errors import NeedsVectors

ITEM, WIDTH, DIMENSION = 10, 16, 8


class Count:
    """Forwards and vector-Jacobian products of all toys, in any thread's copy of them."""

    forwards = products = shared = 0

    @classmethod
    def restart(cls) -> None:
        cls.forwards = cls.products = cls.shared = 0


class _Counted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor) -> Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(ctx, slope: Tensor) -> Tensor:
        Count.products += 1
        return slope


class Toy(Encoder):
    """Three norm layers on the way, and one (`spare`) that no query reaches."""

    def __init__(self, seed: int = 0, dtype: torch.dtype = torch.float32, outputs=DIMENSION):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.first = nn.Sequential(nn.Linear(ITEM, WIDTH), nn.LayerNorm(WIDTH), nn.GELU())
            self.second = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU())
            self.spare = nn.LayerNorm(WIDTH)
            self.last = nn.Sequential(nn.RMSNorm(WIDTH), nn.Linear(WIDTH, outputs))
        self.to(dtype)

    def prepare(self, items) -> Tensor:
        return torch.stack([torch.as_tensor(item) for item in items]).to(self.last[1].weight.dtype)

    def forward(self, prepared: Tensor) -> Tensor:
        return self.finish_from(self.first(prepared))

    def finish_from(self, hidden: Tensor) -> Tensor:
        Count.forwards += 1
        vectors = self.last(hidden + self.second(hidden))
        return _Counted.apply(normalize(vectors.float() if vectors.dtype.itemsize < 4 else vectors))


class SharedToy(Toy):
    """A toy whose first part never adapts, so that it is run once per batch."""

    norm_names = ("second.1", "last.0")

    def shared(self, prepared: Tensor) -> Tensor:
        Count.shared += 1
        return self.first(prepared)

    def finish(self, shared: Tensor) -> Tensor:
        return self.finish_from(shared)


class SeveralVectors(Toy):
    """A gallery encoder that gives three vectors per item."""

    def __init__(self, seed: int = 0):
        super().__init__(seed, outputs=3 * DIMENSION)

    def forward(self, prepared: Tensor) -> Tensor:
        return normalize(super().forward(prepared).view(-1, 3, DIMENSION), dim=2)


class NoNorms(Encoder):
    """Nothing in it can adapt."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(ITEM)[:, :DIMENSION].clone())

    def prepare(self, items) -> Tensor:
        return torch.stack(list(items))

    def forward(self, prepared: Tensor) -> Tensor:
        return normalize(prepared @ self.weight, dim=1)


class Remote:
    """A gallery in another process: it can be searched, but not looked into."""

    def __init__(self, gallery: Gallery):
        self._gallery = gallery
        self.dimension, self.version = gallery.dimension, gallery.version
        self.search, self.centroids = gallery.search, gallery.centroids
        self.positions, self.known, self.ids_at = gallery.positions, gallery.known, gallery.ids_at

    def __len__(self) -> int:
        return len(self._gallery)

    @property
    def vectors(self) -> Tensor:
        raise NeedsVectors("this gallery cannot give its vectors: use a method such as REST.")


def items(count: int, seed: int = 0) -> list[Tensor]:
    """Clean items, what galleries are made of."""
    return list(torch.randn(count, ITEM, generator=torch.Generator().manual_seed(seed)))


def shifted(clean: list[Tensor], seed: int = 1, strength: float = 0.5) -> list[Tensor]:
    """The same items as queries under a shift."""
    noise = torch.randn(len(clean), ITEM, generator=torch.Generator().manual_seed(seed))
    return list(0.8 * torch.stack(clean) + 0.4 + strength * noise)


def stream(clean: list[Tensor], batches: int, size: int = 12, seed: int = 5) -> list[list[Tensor]]:
    """Batches of shifted queries, drawn with a seed."""
    draw = torch.Generator().manual_seed(seed)
    chosen = [torch.randperm(len(clean), generator=draw)[:size] for _ in range(batches)]
    return [shifted([clean[i] for i in rows], seed + n) for n, rows in enumerate(chosen)]


def same(left, right) -> bool:
    """Whether two values are equal to the last bit, tensors and dataclasses included."""
    if left is right:
        return True
    if isinstance(left, Tensor):
        return isinstance(right, Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    if is_dataclass(left):
        return type(left) is type(right) and all(
            same(getattr(left, one.name), getattr(right, one.name))
            for one in fields(left)
            if one.compare
        )
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right or (left != left and right != right)


def memory_of(session) -> tuple:
    """All that a session remembers."""
    updater = session._updater
    return (session.state, updater.now.previous, session.history, updater.gathered)


def tensors_in(*roots) -> list[Tensor]:
    """Every tensor that can be reached from these values, closures included."""
    found, seen, waiting = [], set(), list(roots)
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | types.ModuleType | nn.Module | Gallery):
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            found.append(one)
        elif isinstance(one, types.FunctionType):
            waiting += [cell.cell_contents for cell in one.__closure__ or ()]
        else:
            waiting += gc.get_referents(one)
    return found
