"""What an error about an optional package says."""

import sys

import pytest

from queryshift.errors import MissingExtra
from queryshift.media import images
from queryshift.media.audio import read_audio
from queryshift.media.images import read_image
from queryshift.support.optional import need


def test_a_module_that_is_there_is_given():
    assert need("json", "lab", "reading labels").loads("[1]") == [1]


@pytest.mark.parametrize(
    ("module", "package", "read"),
    [("PIL.Image", "pillow", read_image), ("soundfile", "soundfile", read_audio)],
)
def test_the_error_names_the_package_and_both_ways_to_install_it(
    monkeypatch, module, package, read
):
    monkeypatch.setitem(sys.modules, module, None)
    images._pillow.cache_clear()
    with pytest.raises(MissingExtra, match=f'needs the package "{package}"') as caught:
        read(b"")
    assert 'pip install "queryshift[lab]"' in str(caught.value)  # from a wheel
    assert 'pip install -e ".[lab]"' in str(caught.value)  # in a clone
