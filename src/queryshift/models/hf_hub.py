"""Whether the Hugging Face Hub can be reached, found out in seconds: its client tries for long."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request

from queryshift.support.optional import need

PATIENCE = 3.0  # seconds


def endpoint() -> str:
    """The Hub's address: HF_ENDPOINT, or its own."""
    return str(need("huggingface_hub.constants", "hf", "loading a Hugging Face model").ENDPOINT)


def reachable() -> bool:
    """Whether the Hub answers anything at all in a few seconds; False where HF_HUB_OFFLINE is set.

    A thread asks, since no timeout bounds the search for a name's address.
    """
    constants = need("huggingface_hub.constants", "hf", "loading a Hugging Face model")
    if constants.HF_HUB_OFFLINE:
        return False
    answered = threading.Event()
    asking = threading.Thread(target=_ask, args=(endpoint(), answered), daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return answered.is_set()


def _ask(address: str, answered: threading.Event) -> None:
    request = urllib.request.Request(address, method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=PATIENCE).close()
    except urllib.error.HTTPError:
        pass  # it is there, and says no
    except (OSError, ValueError):
        return
    answered.set()
