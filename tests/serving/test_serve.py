"""How a server is started: its folder, what uvicorn is told, threads, limits on what is read."""

import ctypes
import logging
from types import SimpleNamespace

import pytest

from queryshift.errors import BadInput
from queryshift.serving import serve as serving
from queryshift.serving.settings import LimitSettings, ServeSettings
from queryshift.serving.store import database
from queryshift.serving.store.database import locked_folder


@pytest.mark.parametrize(("store", "held"), [(None, True), ("postgresql://shop@db/shop", False)])
def test_a_folder_is_held_by_one_server_where_the_store_is_in_it(
    store, held, tmp_path, monkeypatch
):
    def run(app, **options):
        try:
            with locked_folder(tmp_path):
                ran.append(False)
        except BadInput:
            ran.append(True)

    ran: list[bool] = []
    monkeypatch.setattr(database, "WAIT_S", 0)
    for name in ("prepare", "Service", "make_app"):
        monkeypatch.setattr(serving, name, lambda *given: None)
    monkeypatch.setattr(serving.uvicorn, "run", run)
    serving.serve(ServeSettings(data=tmp_path, store=store))
    assert ran == [held]


@pytest.mark.parametrize(("drain", "answers"), [(20, 10), (7, 4), (1, 1), (0, 1)])
def test_half_of_drain_seconds_are_for_answers_and_requests_are_logged_once(
    drain, answers, tmp_path, monkeypatch
):
    told = {}
    for name in ("prepare", "Service", "make_app"):
        monkeypatch.setattr(serving, name, lambda *given: None)
    monkeypatch.setattr(serving.uvicorn, "run", lambda app, **options: told.update(options))
    given = {"drain_seconds": drain, "port": 8123, "limits": LimitSettings(header_lines=12)}
    serving.serve(ServeSettings(data=tmp_path, **given))
    assert told["timeout_graceful_shutdown"] == answers
    assert (told["host"], told["port"]) == ("127.0.0.1", 8123)
    assert told["access_log"] is False and told["server_header"] is False  # no word of uvicorn
    assert told["http"].limits.header_lines == 12 and told["http"].open_connections.most == 1024


@pytest.mark.parametrize(
    ("threads", "cores", "expected"),
    [(None, 8, 7), (None, 2, 1), (None, 1, 1), (None, None, 1), (3, 8, 3)],
)
def test_torch_has_the_threads_that_are_set_or_all_cores_but_one(
    threads, cores, expected, monkeypatch
):
    set_threads, read = [], []
    monkeypatch.setattr(serving.os, "cpu_count", lambda: cores)
    monkeypatch.setattr(serving.torch, "set_num_threads", set_threads.append)
    monkeypatch.setattr(serving.sys, "setswitchinterval", lambda seconds: None)
    monkeypatch.setattr(serving, "set_limits", read.append)
    monkeypatch.setattr(serving, "_limit_arenas", lambda: None)
    monkeypatch.setattr(serving.warnings, "simplefilter", lambda *given: None)
    for name in ("logThreads", "logProcesses", "logMultiprocessing", "_srcfile"):
        monkeypatch.setattr(logging, name, getattr(logging, name))
    limits = LimitSettings(pixels=5, body_bytes=2048, seconds=7.0, characters=9)
    serving.prepare(ServeSettings(threads=threads, limits=limits))
    assert set_threads == [expected]
    (limit,) = read
    assert (limit.pixels, limit.file_bytes, limit.seconds, limit.characters) == (5, 2048, 7.0, 9)


@pytest.mark.parametrize(
    ("platform", "environment", "limited"),
    [("linux", None, True), ("linux", "8", False), ("darwin", None, False)],
)
def test_an_operator_may_set_the_arenas_of_malloc(platform, environment, limited, monkeypatch):
    called = []
    libc = SimpleNamespace(mallopt=lambda *given: called.append(given))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: libc)
    monkeypatch.setattr(serving.sys, "platform", platform)
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    if environment is not None:
        monkeypatch.setenv("MALLOC_ARENA_MAX", environment)
    serving._limit_arenas()
    assert called == [(-8, 2)] * limited  # malloc.h: M_ARENA_MAX is -8
    del libc.mallopt  # as in musl
    serving._limit_arenas()
