"""What a process shares: a writer that says when the store cannot be written, and threads."""

import asyncio
import logging

import pytest

from queryshift.serving.errors import DiskFull
from queryshift.serving.metrics import Metrics
from queryshift.serving.runtime import Runtime, Writer
from queryshift.serving.settings import ServeSettings


def test_a_store_that_cannot_be_written_is_told_once_and_so_is_its_end(caplog):
    caplog.set_level(logging.WARNING, "queryshift.serving")
    metrics = Metrics()
    writer, value = Writer(metrics), metrics.registry.get_sample_value

    def full() -> None:
        raise DiskFull("no room.")

    async def check() -> None:
        assert await writer.write(lambda *given: given, 1, 2) == (1, 2)
        assert not caplog.records and value("queryshift_disk_trouble") == 0
        for _ in range(2):
            with pytest.raises(DiskFull):
                await writer.write(full)
            assert writer.trouble == "no room." and value("queryshift_disk_trouble") == 1
            assert len(caplog.records) == 1
        for _ in range(2):
            await writer.write(str)
            assert writer.trouble is None and value("queryshift_disk_trouble") == 0

    asyncio.run(check())
    writer.close()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2 and "cannot be written" in told[0] and "written again" in told[1]
    assert value("queryshift_saves_total") == 3 and value("queryshift_failed_saves_total") == 2


@pytest.mark.parametrize(("cores", "decoders"), [(1, 1), (2, 1), (8, 4), (None, 1)])
def test_decoding_leaves_half_of_the_cores_to_the_model(cores, decoders, tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    runtime = Runtime(ServeSettings(data=tmp_path), Metrics())
    assert runtime.decoding._threads == decoders and runtime.background._threads == 1
    runtime.close()
