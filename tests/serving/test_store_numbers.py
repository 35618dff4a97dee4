"""The numbers of tenants in the store: what is late for a deleted one reaches no other."""

from queryshift.serving.settings import ServeSettings
from queryshift.serving.store.schema import open_store
from queryshift.serving.store.tenant_rows import TenantRows


def test_the_versions_of_any_number_of_tenants_are_read(tmp_path):
    opened = open_store(ServeSettings(data=tmp_path))
    rows = TenantRows(opened, "shop")
    ids = [rows.make(name, "live", 10).id for name in ("first", "middle", "last")]
    rows.delete("middle")
    assert rows.versions(ids) == {ids[0]: 1, ids[2]: 1} and rows.versions([]) == {}
    many = [ids[0], *range(10_000, 12_500), ids[2]]
    assert rows.versions(many) == {ids[0]: 1, ids[2]: 1}
    opened.close()


def test_the_number_of_a_deleted_tenant_is_given_to_no_other(tmp_path):
    opened = open_store(ServeSettings(data=tmp_path))
    rows = TenantRows(opened, "shop")
    first, last = (rows.make(name, "live", 10).id for name in ("first", "last"))
    rows.delete("last")
    assert rows.make("another", "live", 10).id > last > first
    opened.close()
