"""PostgreSQL's NOTIFY, heard in a thread: what another process changed is looked at at once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from queryshift.support.optional import need

from .database import CHANNEL, Database

AGAIN_S = 5.0  # after which a lost connection is tried again
HEAR_S = 1.0  # between looks at whether to end
logger = logging.getLogger("queryshift.serving")


class Listening:
    """Calls a function for each notification, until ended.

    Where it cannot listen, as behind a pooler of transactions, nothing is lost: the tenants'
    versions are looked at twice a second anyway.

    Args:
        database: PostgreSQL.
        heard: is called, in a thread.
    """

    def __init__(self, database: Database, heard: Callable[[], object]) -> None:
        self._address = database.engine.url.set(drivername="postgresql")
        self._heard, self._ended = heard, threading.Event()
        self._psycopg = need("psycopg", "postgres", "a store in PostgreSQL")
        self._thread = threading.Thread(target=self._run, name="queryshift-listener", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop listening."""
        self._ended.set()
        self._thread.join(5 * HEAR_S)

    def _run(self) -> None:
        address = self._address.render_as_string(hide_password=False)
        while not self._ended.is_set():
            try:
                with self._psycopg.connect(address, autocommit=True) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    self._heard()  # of what happened before
                    while not self._ended.is_set():
                        for _ in connection.notifies(timeout=HEAR_S):
                            self._heard()
            except self._psycopg.Error as error:
                logger.info("no notifications from PostgreSQL for a while: %s", error)
                self._ended.wait(AGAIN_S)
