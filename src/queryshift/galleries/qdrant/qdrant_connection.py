"""A connection to Qdrant that is made again when it was lost, and shows no key."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from queryshift.errors import BadInput, EngineLost, GalleryMismatch
from queryshift.support.optional import need

from ..model_origin import ModelOrigin
from ..stored_vectors import address_options

OPTIONS = {"vector": str, "ef": int, "exact": int, "secure": int}
OLDEST = (1, 11)  # which can draw a random sample


class Connection:
    """A client of Qdrant that is made again when it was lost, and shows no key."""

    def __init__(self, location: str, key: str, timeout: float) -> None:
        self._package = need("qdrant_client", "qdrant", "a gallery in Qdrant")
        self._location, self._timeout = location, timeout
        self.remote = location.startswith(("http://", "https://"))
        self.place = location if self.remote else str(Path(location).resolve())
        self._key = key or os.environ.get("QDRANT_API_KEY", "")
        self._client: Any = None

    def call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """A method of the client; errors become the library's."""
        answered = self._package.http.exceptions
        try:
            return getattr(self._connected(), verb)(*arguments, **options)
        except answered.UnexpectedResponse as error:
            text = f"{error.status_code} {error.reason_phrase}"
            if error.status_code is not None and 400 <= error.status_code < 500:
                raise BadInput(
                    f"Qdrant refused ({text}): correct the address, the collection, or the key "
                    "in QDRANT_API_KEY."
                ) from None
        except (answered.ApiException, OSError) as error:
            text = type(error).__name__
        self.close()
        raise EngineLost(f"Qdrant does not answer ({text}): is the server running?")

    def check_version(self) -> None:
        """Refuse servers that cannot draw a random sample; a folder has no version."""
        if not self.remote:
            return
        version = self.call("info").version
        if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
            raise BadInput(f"this is Qdrant {version}, expected 1.11 or later: upgrade the server.")

    def close(self) -> None:
        """End it; the next call connects again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> Any:
        if self._client is None and self.remote:
            self._client = self._package.QdrantClient(
                url=self._location,
                api_key=self._key or None,
                timeout=max(1, round(self._timeout)),
                check_compatibility=False,
            )
        elif self._client is None:
            self._client = self._package.QdrantClient(
                path=self._location, force_disable_check_same_thread=True
            )
        return self._client


def described(
    connection: Connection, collection: str, vector: str
) -> tuple[int, str, ModelOrigin | None]:
    """The length of a collection's vectors, their metric, and the model that made them."""
    if not connection.call("collection_exists", collection):
        raise BadInput(f'no collection "{collection}" in this Qdrant: correct the address.')
    about = connection.call("get_collection", collection).config
    vectors = about.params.vectors
    named = vectors if isinstance(vectors, dict) else {"": vectors}
    if vector not in named:
        names = ", ".join(filter(None, named)) or "only one without a name"
        raise BadInput(
            f'collection "{collection}" has no vector "{vector}"; there is {names}: name it as '
            '"vector".'
        )
    if getattr(named[vector], "multivector_config", None):
        raise GalleryMismatch(
            f'vector "{vector}" of collection "{collection}" is a multivector, expected one vector '
            "per point: name another."
        )
    origin = ModelOrigin.from_text((getattr(about, "metadata", None) or {}).get(ModelOrigin.KEY))
    return int(named[vector].size), str(named[vector].distance.value), origin


def split_address(address: str) -> tuple[str, str, dict[str, Any]]:
    """What the client connects to, the collection, and the options of `Qdrant`."""
    try:
        parts = urlsplit(address)
        port = parts.port or 6333
    except ValueError:
        raise BadInput("the address cannot be read, expected qdrant://host:6333/name.") from None
    path, _, collection = unquote(parts.path).rpartition("/")
    if not collection or not (path or parts.hostname):
        raise BadInput(
            "the address names no collection, expected qdrant://host:6333/collection or "
            "qdrant:///folder/collection."
        )
    options = address_options(parts.query, OPTIONS)
    scheme = "https" if options.pop("secure", 0) else "http"
    if parts.password or parts.username:
        options["key"] = unquote(parts.password or parts.username or "")
    location = f"{scheme}://{parts.hostname}:{port}{path}" if parts.hostname else path
    return location, collection, options
