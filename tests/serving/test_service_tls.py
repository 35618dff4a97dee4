"""HTTPS by the two files that the settings name."""

import shutil
import ssl
import subprocess

import httpx
import pytest

from queryshift.errors import Error
from queryshift.serving.serve import serve
from queryshift.serving.settings import read_settings
from running_server import SMALL, Server

MAKE = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout k -out c"


class Https(Server):
    scheme = "https"


def test_a_certificate_without_its_key_is_refused(tmp_path):
    (tmp_path / "c").write_text("")
    with pytest.raises(Error, match="TLS needs both"):
        serve(read_settings(None, data=tmp_path, tls_certificate=tmp_path / "c"))


def test_a_file_that_is_not_there_is_named(tmp_path):
    (tmp_path / "c").write_text("")
    given = {"tls_certificate": tmp_path / "c", "tls_key": tmp_path / "missing.pem"}
    with pytest.raises(Error, match=r"tls_key is .*: path does not point to a file"):
        serve(read_settings(None, data=tmp_path, **given))


@pytest.mark.service
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_https_is_served_and_plain_http_is_not(tmp_path):
    subprocess.run(MAKE.split(), cwd=tmp_path, check=True, capture_output=True)
    Https.verify = ssl.create_default_context(cafile=str(tmp_path / "c"))
    Https.verify.check_hostname = False
    files = 'tls_certificate = "c"\ntls_key = "k"\n'
    with Https(tmp_path, files + SMALL) as server:
        with server.client() as client:
            assert client.get("/readyz").json()["status"] == "ready"
        with pytest.raises(httpx.TransportError):
            httpx.get(server.url.replace("https", "http") + "/readyz")
