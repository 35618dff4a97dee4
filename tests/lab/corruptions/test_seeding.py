"""Random numbers belong to the item, the corruption and the severity, to nothing else."""

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import photo

from queryshift.errors import BadInput
from queryshift.lab.corruptions import NAMES, corrupt, find, generator
from queryshift.lab.corruptions.files import Recipe

RANDOM = ("gaussian_noise", "glass_blur", "snow", "frost", "fog", "elastic")


def fingerprint(job):
    name, item = job
    corrupted = corrupt(photo("fruit"), find("image", name), 4, seed=11, item_id=item)
    return sha256(corrupted.tobytes()).hexdigest()


def test_an_item_is_corrupted_alike_alone_shuffled_and_in_other_processes():
    jobs = [(name, item) for name in RANDOM for item in ("17", "a.jpg")]
    here = {job: fingerprint(job) for job in jobs}
    shuffled = {job: fingerprint(job) for job in reversed(jobs)}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        elsewhere = dict(zip(jobs, pool.map(fingerprint, jobs), strict=True))
    assert here == shuffled == elsewhere
    assert len(set(here.values())) == len(jobs)


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_the_generator_does_not_depend_on_pythons_hashing(hash_seed):
    code = (
        "from queryshift.lab.corruptions import generator;"
        "print(generator(5, 'item', 'fog', 2).integers(10**9))"
    )
    environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == generator(5, "item", "fog", 2).integers(10**9)


def test_the_stream_is_the_one_of_the_first_release():
    drawn = generator(1, "a", "fog", 3).bit_generator.random_raw(2)
    assert drawn.tolist() == [10941465945063141482, 451045572183525497]


keys = st.tuples(st.integers(), st.text(max_size=5), st.text(max_size=5), st.integers(1, 5))


@given(keys, keys)
def test_different_keys_give_different_streams(first, second):
    same = first == second
    drawn = [generator(*key).bit_generator.random_raw() for key in (first, second)]
    assert (drawn[0] == drawn[1]) is same


def test_a_numbered_item_is_its_number_written_out():
    assert generator(0, 17, "fog", 1).random() == generator(0, "17", "fog", 1).random()


def test_parts_of_the_key_do_not_run_together():
    assert generator(1, "2a", "b", 3).random() != generator(1, "2", "ab", 3).random()
    assert generator(1, "23", "a", 3).random() != generator(12, "3", "a", 3).random()


def test_every_severity_has_draws_of_its_own():
    def uniform(item, severity, rng):
        return rng.random()

    own = {corrupt(0, uniform, s, seed=0, item_id=1) for s in (1, 2, 3)}
    assert len(own | {generator(0, 1, "uniform").random()}) == 4


def test_common_draws_make_noise_grow_in_place():
    clean = np.full((32, 32, 3), 128, np.uint8)
    recipes = (Recipe("image", "gaussian_noise", severity) for severity in (1, 2))
    mild, strong = (recipe.apply(clean, "x", common=True).astype(int) - 128 for recipe in recipes)
    assert np.corrcoef(mild.ravel(), strong.ravel())[0, 1] > 0.99


def test_a_severity_out_of_range_is_refused_before_anything_is_drawn():
    with pytest.raises(BadInput, match="severity is 6"):
        corrupt("never touched", find("image", "fog"), 6, seed=0, item_id=0)


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].copy()
    for family in NAMES["image"].values():
        for name in family:
            corrupt(photo("fruit"), find("image", name), 2, seed=0, item_id=0)
    assert np.array_equal(np.random.get_state()[1], before)
