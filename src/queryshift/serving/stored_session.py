"""A session from a stored state; a state that no longer fits is kept aside, never lost."""

from __future__ import annotations

import logging

from queryshift.errors import Error
from queryshift.galleries import EngineGallery
from queryshift.sessions.session import Session

from .collection import Collection
from .errors import Conflict
from .store.snapshot_rows import SnapshotRows
from .store.stored_tenant import StoredState, StoredTenant

logger = logging.getLogger("queryshift.serving")


def stored_session(
    collection: Collection, stored: StoredTenant, snapshots: SnapshotRows
) -> Session:
    """The session of a tenant; a fresh one where it has no state, or one that no longer fits.

    Args:
        collection: the tenant's collection as it is now.
        stored: the tenant; its events are told why a state was kept aside.
        snapshots: where such a state is kept.
    """
    name, state = stored.record.tenant, stored.state
    if state is None:
        return collection.session(name=name)
    try:
        check_gallery(collection, state)
        return opened(collection, state, name=name)
    except Error as error:
        why = f"the stored state is kept aside, and the source answers: {error}"
    logger.warning('tenant "%s" starts anew: %s', name, why)
    where = (stored.id, stored.version, state, stored.record.batches, why)
    if (event := snapshots.keep_aside(*where)) is not None:
        stored.record.events.append(event)
    return collection.session(name=name)


def opened(collection: Collection, state: StoredState, **more: str) -> Session:
    """The session of a state, refused where encoder or method are others, or it is damaged."""
    settings = {**collection.session_settings, **more}
    session = Session.load(state.content, collection.encoder, collection.gallery, **settings)
    if session.method.name != collection.method.name:
        raise Conflict(
            f"it is of the method {session.method.name}, the collection runs "
            f"{collection.method.name}: reset the tenant instead."
        )
    return session


def check_gallery(collection: Collection, state: StoredState) -> None:
    """Refuse a state that was learnt over another gallery; engines' change all the time."""
    gallery = collection.gallery
    if not isinstance(gallery, EngineGallery) and state.gallery not in ("", gallery.version):
        raise Conflict(
            "it was learnt over another gallery: roll back to it if you want it all the same."
        )
