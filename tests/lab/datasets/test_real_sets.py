"""Real sets beyond the paper's: what a query is, what is right for it, and who sees which part."""

import pytest

from queryshift.errors import BadFile
from queryshift.lab.datasets import DATASETS, stream_variants
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from small_datasets import WRITERS, small

REAL = ("aws", "msmarco", "pacs", "esc50", "flickr8k")


@pytest.mark.parametrize("name", REAL)
def test_a_missing_folder_says_where_the_files_are(tmp_path, name):
    source = DATASETS[name].source
    assert "github.com" in source or "pip install" in source
    for root in (tmp_path / "absent", tmp_path):
        with pytest.raises(BadFile) as refused:
            DATASETS[name](root)
        assert str(refused.value).endswith(source)


@pytest.mark.parametrize("name", REAL)
def test_every_set_is_a_benchmark_with_a_development_part(name):
    own = {row.name: row for row in BENCHMARKS.values() if row.dataset == name}
    tests = [each for each in own if "-dev" not in each and not own[each].downloads]
    assert len(tests) > 1
    for each in tests:
        row, dev = own[each], own[each.replace(name, f"{name}-dev", 1)]
        assert (row.query, row.shifts, row.severities) == (dev.query, dev.shifts, dev.severities)
        assert (row.part or next(iter(DATASETS[name].parts))) != dev.part
        assert dev.part in DATASETS[name].parts


@pytest.mark.parametrize("name", REAL)
def test_development_and_test_share_no_query(tmp_path, name):
    root, reader = WRITERS[name](tmp_path), DATASETS[name]
    own = {row.name: row for row in BENCHMARKS.values() if row.dataset == name}
    for dev in (row for row in own.values() if "-dev" in row.series):
        test = own[dev.name.replace("-dev", "", 1)]
        asked = [
            {id_.split(":")[-1] for id_ in reader(root, row.query, row.part or None).query_ids}
            for row in (dev, test)
        ]
        assert all(asked) and not asked[0] & asked[1]


class TestAWS:
    def test_operations_ask_for_their_descriptions(self, tmp_path):
        dataset = DATASETS["aws"](small.aws(tmp_path))
        found = {dataset.queries[i]: dataset.candidates[dataset.matches[i][0]] for i in (0, 1)}
        assert found == {
            "Beta Service list db zone 0": "Starts the scan & returns its number without waiting "
            "for its end.",
            "Gamma Service get db zone 1": "Deletes an image with all its tags from the registry "
            "for good.",
        }
        assert sorted(dataset.labels) == ["beta", "gamma"]

    def test_a_text_of_both_sides_is_on_one(self, tmp_path):
        root = small.aws(tmp_path)
        dev, test = (DATASETS["aws"](root, part=part) for part in ("dev", "test"))
        assert dev.queries == ["Alpha Service list db zone 0"]
        assert not set(dev.candidates) & set(test.candidates)

    def test_copies_are_right_answers_too(self, tmp_path, monkeypatch):
        monkeypatch.setattr(stream_variants, "DROPPED", 0.5)
        dataset = DATASETS["aws"](small.aws(tmp_path), part="test-duplicates")
        assert len(dataset.candidates) == 2 + stream_variants.COPIES
        (right,) = (own for own in dataset.matches if len(own) > 1)
        whole, *copies = (dataset.candidates[place].split() for place in right)
        for copy in copies:
            assert len(copy) < len(whole) and set(copy) <= set(whole)

    def test_a_damaged_model_is_named(self, tmp_path):
        root = small.aws(tmp_path)
        (root / "beta" / "2020-01-01" / "service-2.json").write_text("{")
        with pytest.raises(BadFile, match=r"beta.*service-2\.json.*read as a model"):
            DATASETS["aws"](root)


class TestMSMARCO:
    def test_relevant_is_what_trec_calls_so(self, tmp_path):
        dataset = DATASETS["msmarco"](small.msmarco(tmp_path))
        assert (dataset.query_ids, dataset.matches) == (["11"], [[0]])  # grade 1 is no answer
        assert dataset.candidates[0] == "A goldfish grows\u2028all its life."

    def test_all_misspelt_versions_are_one_stream(self, tmp_path):
        dataset = DATASETS["msmarco"](small.msmarco(tmp_path), part="test-typos")
        assert dataset.query_ids == [f"typo{at}:11" for at in range(1, 11)]
        assert dataset.matches == [[0]] * 10

    def test_files_may_lie_side_by_side(self, tmp_path):
        root = small.msmarco(tmp_path)
        for file in [path for path in root.rglob("*") if path.is_file()]:
            place = root / ("qrels/test.tsv" if file.name == "test.tsv" else file.name)
            place.parent.mkdir(exist_ok=True)
            file.rename(place)
        assert len(DATASETS["msmarco"](root)) == 1

    def test_a_damaged_line_is_named(self, tmp_path):
        root = small.msmarco(tmp_path)
        (root / "embedding-leaderboard/datasets/msmarco/qrels/test.tsv").write_text("11 p0 3\n")
        with pytest.raises(BadFile, match="line 1 has 1 columns, expected 3"):
            DATASETS["msmarco"](root)


def test_pictures_ask_for_sentences_on_their_class(tmp_path):
    dataset = DATASETS["pacs"](small.pacs(tmp_path), part="sketch")
    assert dataset.query_ids == ["dog/4", "house/4"]
    assert [dataset.candidates[right[0]] for right in dataset.matches] == ["a dog", "a house"]
    assert {len(right) for right in dataset.matches} == {5}
    assert dataset.queries[0].size == (6, 4)


def test_sounds_ask_for_sentences_on_their_class(tmp_path):
    root = small.esc50(tmp_path)
    test, train = (DATASETS["esc50"](root, part=part) for part in ("test", "train"))
    assert test.query_ids == ["5-100-A-1"] and len(train) == 4
    right = [test.candidates[place] for place in test.matches[0]]
    assert right == ["hand saw", "the sound of hand saw", "a recording of hand saw"]
    assert test.candidates == train.candidates
    (root / "meta" / "esc50.csv").write_text("name,fold\na,1\n")
    with pytest.raises(BadFile, match="lacks the columns"):
        DATASETS["esc50"](root)
