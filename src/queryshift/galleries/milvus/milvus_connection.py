"""A connection to Milvus that is made again when it was lost, and shows no token."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote, urlsplit

from queryshift.errors import BadInput, EngineLost
from queryshift.support.optional import need

from ..stored_vectors import address_options

OPTIONS = {"vector": str, "consistency": str, "ef": int, "nprobe": int, "secure": int}
REFUSALS = ("auth", "permission", "collection not found", "can't find collection", "invalid")


class Connection:
    """A client of pymilvus, for any number of threads.

    Args:
        uri: A server's address, or the path of a file.
        token: "user:password" or an API key, or nothing.
        timeout: Seconds that a call may take.
    """

    def __init__(self, uri: str, token: str, timeout: float) -> None:
        self._pymilvus = need("pymilvus", "milvus", "a gallery in Milvus")
        self._grpc = import_module("grpc")
        self._uri, self._token, self._timeout = uri, token, timeout
        self.place = uri if "://" in uri else str(Path(uri).resolve())
        self._lock = Lock()
        self._client: Any = None

    def call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """A method of the client; the next call connects again where the connection was lost."""
        try:
            method = getattr(self._connected(), verb)
            if verb in ("create_schema", "prepare_index_params"):  # which ask no server
                return method()
            return method(*arguments, timeout=self._timeout, **options)
        except self._pymilvus.MilvusException as error:
            text = self._text(error)
        except self._grpc.RpcError as error:  # which pymilvus lets through where a file is open
            text = self._text(error)
            if error.code() == self._grpc.StatusCode.DEADLINE_EXCEEDED:
                self.close()
                raise EngineLost(
                    f"Milvus needed more than the {self._timeout:g} seconds that a call may take: "
                    "ask fewer queries at once, or give the gallery a longer timeout."
                ) from None
        except (OSError, ValueError, RuntimeError) as error:  # what gRPC says of a closed channel
            text = self._text(error)
        if any(word in text.lower() for word in REFUSALS):
            raise BadInput(
                f"Milvus refused ({text}): correct the address, the collection, or the user and "
                "password in it or in MILVUS_TOKEN."
            )
        self.close()
        doubt = ", and are the user and password right" if self._token else ""  # it does not say
        raise EngineLost(f"Milvus does not answer ({text}): is the server running{doubt}?")

    def close(self) -> None:
        """End it; the next call connects again."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._pymilvus.MilvusClient(
                    self._uri, token=self._token, timeout=self._timeout
                )
            return self._client

    def _text(self, error: Exception) -> str:
        """The first line of an error, without the token or a part of it."""
        told = getattr(error, "message", "") or getattr(error, "details", lambda: "")() or error
        line = str(told).strip().partition("\n")[0]
        for secret in filter(None, (self._token, self._token.partition(":")[2])):
            line = line.replace(secret, "***")
        return line.rstrip(".")


def split_address(address: str) -> tuple[str, str, dict[str, Any]]:
    """What pymilvus connects to, the collection, and the options of `Milvus`."""
    try:
        parts = urlsplit(address)
        port = parts.port or 19530
    except ValueError:
        raise BadInput("the address cannot be read, expected milvus://host:19530/name.") from None
    path, _, collection = unquote(parts.path).rpartition("/")
    if not re.fullmatch(r"\w+", collection) or not (path or parts.hostname):
        raise BadInput(
            f'got the collection "{collection}" in the address, expected '
            "milvus://host:19530/collection or milvus:///path/file.db/collection."
        )
    options = address_options(parts.query, OPTIONS)
    scheme = "https" if options.pop("secure", 0) else "http"
    if parts.username:
        options["token"] = ":".join(filter(None, (parts.username, parts.password)))
        options["token"] = unquote(options["token"])
    uri = f"{scheme}://{parts.hostname}:{port}{path}" if parts.hostname else path
    return uri, collection, options
