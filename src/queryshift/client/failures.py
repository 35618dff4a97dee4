"""Answers of the service that are no result, as the library's errors in the service's words."""

from __future__ import annotations

from typing import Any

from queryshift.errors import BadInput, Error, NotAllowed, ServiceBusy, ServiceLost, UnknownName

KINDS: dict[int, type[Error]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: UnknownName,
    429: ServiceBusy,
}


def failure(status: int, problem: Any) -> Error:
    """The error that a problem of the service stands for.

    Args:
        status: of the answer.
        problem: its JSON, or None where it has none.

    Returns:
        An error with the service's own sentence, and the request's id as a note.

    Examples:
        >>> failure(404, {"detail": 'no tenant "bob".'})
        UnknownName('no tenant "bob".')
    """
    told = problem if isinstance(problem, dict) else {}
    sentence = told.get("detail") or f"the service answered with the status {status}."
    kind = KINDS.get(status, BadInput if 400 <= status < 500 else ServiceLost)
    error = kind(str(sentence))
    error.add_note(f"status {status}, request {told.get('request_id', 'without an id')}")
    return error


def foreign(address: str) -> ServiceLost:
    """The error for an answer that no queryshift service gives."""
    return ServiceLost(
        f"{address} answered with something that is not queryshift's: check the address, and what "
        "lies between."
    )


def unreachable(address: str, reason: Exception | None) -> ServiceLost:
    """The error for a service that does not answer."""
    why = str(reason) or type(reason).__name__
    return ServiceLost(f"{address} does not answer ({why}): is the service running?")
