"""Addresses of galleries: find the engine for an address, and split it into its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from queryshift.errors import BadInput
from queryshift.support.registry import Table

from .candidate_checks import unit_vectors
from .searchable import Searchable

Opener: TypeAlias = Callable[[str], Searchable]

ENGINES: Table[Opener] = Table(
    "kind of gallery address",
    {
        "milvus": "queryshift.galleries.milvus:open",
        "postgres": "queryshift.galleries.postgres:open",
        "postgresql": "queryshift.galleries.postgres:open",
        "qdrant": "queryshift.galleries.qdrant:open",
        "qdrant-edge": "queryshift.galleries.qdrant:open_edge",
        "faiss": "queryshift.galleries.faiss:open",
        "elasticsearch": "queryshift.galleries.elasticsearch:open",
        "opensearch": "queryshift.galleries.elasticsearch:open",
    },
)


class ServerAddress(NamedTuple):
    """Parts of an address such as "qdrant://key@host:6333/collection?ef=512"."""

    url: str  # "http://host:6333", or a path on this machine
    collection: str
    user: str
    password: str
    options: dict[str, Any]


def opener_of(address: str | Path) -> Opener | None:
    """Return the function that opens an address or a Parquet file; None for a gallery file."""
    if str(address).endswith(".parquet"):
        return _open_parquet
    kind, colon, rest = str(address).partition(":")
    if not colon or (kind not in ENGINES and not rest.startswith("//")):
        return None  # a path, which may contain a colon
    return ENGINES[kind]


def split_address(
    address: str, port: int, kinds: Mapping[str, type], example: str
) -> ServerAddress:
    """Split the address of a collection on a server, or in a file or folder of this machine.

    Args:
        address: "kind://user:password@host:port/collection?option=value", or
            "kind:///path/collection".
        port: The default port.
        kinds: The options of the engine, each with its type.
        example: An address of this kind, for errors.
    """
    try:
        parts = urlsplit(address)
        port = parts.port or port
    except ValueError:
        raise BadInput(f"the address cannot be read, expected {example}.") from None
    path, _, collection = unquote(parts.path).rpartition("/")
    if not collection or not (path or parts.hostname):
        raise BadInput(f"the address names no collection, expected {example}.")
    options = address_options(parts.query, kinds)
    scheme = "https" if options.pop("secure", 0) else "http"
    url = f"{scheme}://{parts.hostname}:{port}{path}" if parts.hostname else path
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return ServerAddress(url, collection, user, password, options)


def address_options(query: str, kinds: Mapping[str, type]) -> dict[str, Any]:
    """Return the options after the "?" of an address, converted to their types.

    Examples:
        >>> from queryshift.galleries.addresses import address_options
        >>> address_options("ef=512&table=items", {"ef": int, "table": str})
        {'ef': 512, 'table': 'items'}
    """
    options = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in kinds:
            raise BadInput(f'no option "{name}" in this address; known: {", ".join(kinds)}.')
        try:
            options[name] = kinds[name](text)
        except ValueError:
            raise BadInput(
                f'the address says {name}={text!r}, expected a whole number: write "{name}=256".'
            ) from None
    return options


def _open_parquet(path: str) -> Searchable:
    from .memory.gallery_file import read_parquet
    from .memory.memory_gallery import Gallery

    ids, vectors, origin = read_parquet(Path(path))
    fingerprint = None if origin is None else origin.fingerprint
    return Gallery(ids, unit_vectors(vectors), fingerprint, origin)
