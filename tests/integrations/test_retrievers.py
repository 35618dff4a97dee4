"""Retrievers of LangChain and LlamaIndex over a session, with the real libraries."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

import queryshift as qs
from queryshift.errors import BadInput
from queryshift.integrations.lookup import matches

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
TEXTS = {"crimson": "a red square", "navy": "a blue circle", "forest": "a green star"}


@pytest.fixture()
def session() -> qs.Session:
    encoder = qs.load("tangram")["text"]
    gallery = qs.Gallery.build(encoder, list(TEXTS.values()), ids=list(TEXTS))
    return qs.Session(encoder, gallery, qs.REST(), gather=2)


def test_matches_are_the_sessions_hits(session):
    hits = session.answer(["a blue ring"], adapt=False).top(2)
    found = matches(session, TEXTS, "a blue ring", k=2, adapt=False)
    assert [match.id for match in found] == hits.ids[0]
    assert [match.document for match in found] == [TEXTS[id] for id in hits.ids[0]]
    assert [match.score for match in found] == pytest.approx(hits.scores[0].tolist())


def test_a_candidate_without_a_text(session):
    with pytest.raises(BadInput, match="'navy', but `documents` has no text for it"):
        matches(session, {"crimson": ""}, "a blue circle", k=1, adapt=False)


ROWS = {"crimson": [1.0, 0.0, 0.0], "navy": [0.0, 1.0, 0.0], "forest": [0.0, 0.0, 1.0]}
ASKED = {"red": [0.9, 0.1, 0.0], "blue": [0.2, 3.0, 0.1]}


class TestVectors:
    @pytest.fixture()
    def over_vectors(self):
        gallery = qs.Gallery.from_vectors(list(ROWS), list(ROWS.values()))
        return qs.Session(qs.Vectors(3), gallery)

    def test_a_query_is_embedded_first(self, over_vectors):
        (found,) = matches(over_vectors, TEXTS, "blue", 1, True, ASKED.__getitem__)
        assert (found.id, found.document) == ("navy", "a blue circle")
        assert over_vectors.state.batches == 1

    def test_without_a_way_to_embed_it_the_error_says_so(self, over_vectors):
        with pytest.raises(BadInput, match=r"embed=embeddings\.embed_query"):
            matches(over_vectors, TEXTS, "blue", 1, True)

    def test_a_retriever_of_langchain(self, over_vectors):
        pytest.importorskip("langchain_core")
        from queryshift.integrations.langchain import SessionRetriever

        embed = ASKED.__getitem__
        retriever = SessionRetriever(session=over_vectors, documents=TEXTS, k=1, embed=embed)
        assert [row[0].id for row in retriever.batch(["red", "blue"])] == ["crimson", "navy"]

    def test_a_retriever_of_llama_index(self, over_vectors):
        pytest.importorskip("llama_index.core")
        from queryshift.integrations.llama_index import SessionRetriever

        retriever = SessionRetriever(over_vectors, TEXTS, k=1, embed=ASKED.__getitem__)
        assert retriever.retrieve("red")[0].node.node_id == "crimson"


@pytest.mark.parametrize("name", ["langchain", "llama_index"])
def test_the_extra_is_named_where_the_library_is_absent(name):
    library = {"langchain": "langchain_core", "llama_index": "llama_index"}[name]
    code = f"import sys; sys.modules['{library}'] = None; import queryshift.integrations.{name}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f'pip install "queryshift[{name.replace("_", "-")}]"' in ran.stderr


class TestLangChain:
    @pytest.fixture()
    def retriever_class(self):
        pytest.importorskip("langchain_core")
        from queryshift.integrations.langchain import SessionRetriever

        return SessionRetriever

    def test_documents_come_best_first_with_their_scores(self, retriever_class, session):
        retriever = retriever_class(session=session, documents=TEXTS, k=2)
        first, second = retriever.invoke("a blue circle")
        assert (first.id, first.page_content) == ("navy", "a blue circle")
        assert first.metadata["score"] == pytest.approx(1.0, abs=1e-5)
        assert first.metadata["score"] > second.metadata["score"]

    def test_documents_of_ones_own_stay_as_they_are(self, retriever_class, session):
        from langchain_core.documents import Document

        own = {
            id: Document(id="7", page_content=text, metadata={"page": 3})
            for id, text in TEXTS.items()
        }
        (document,) = retriever_class(session=session, documents=own, k=1).invoke("a green star")
        assert (document.id, document.page_content) == ("7", "a green star")
        assert document.metadata["page"] == 3 and "score" in document.metadata
        assert "score" not in own["forest"].metadata

    def test_it_adapts_unless_told_not_to(self, retriever_class, session):
        retriever = retriever_class(session=session, documents=TEXTS)
        retriever.batch(["a blue ring", "a red star"])
        assert session.state.adapted.updates > 0
        updates = session.state.adapted.updates
        still = retriever_class(session=session, documents=TEXTS, adapt=False)
        still.batch(["a blue ring", "a red star"])
        assert session.state.adapted.updates == updates

    def test_it_is_a_part_of_chains_and_answers_without_blocking(self, retriever_class, session):
        retriever = retriever_class(session=session, documents=TEXTS, k=1)
        chain = retriever | (lambda documents: documents[0].page_content)
        assert chain.invoke("a red square") == "a red square"
        (document,) = asyncio.run(retriever.ainvoke("a red square"))
        assert document.id == "crimson"


class TestLlamaIndex:
    @pytest.fixture()
    def retriever_class(self):
        pytest.importorskip("llama_index.core")
        from queryshift.integrations.llama_index import SessionRetriever

        return SessionRetriever

    def test_nodes_come_best_first_with_their_scores(self, retriever_class, session):
        first, second = retriever_class(session, TEXTS, k=2).retrieve("a blue circle")
        assert (first.node.node_id, first.text) == ("navy", "a blue circle")
        assert first.score == pytest.approx(1.0, abs=1e-5)
        assert first.score > second.score

    def test_nodes_of_ones_own_stay_as_they_are(self, retriever_class, session):
        from llama_index.core.schema import TextNode

        own = {id: TextNode(id_=f"node-{id}", text=text) for id, text in TEXTS.items()}
        (found,) = retriever_class(session, own, k=1).retrieve("a green star")
        assert found.node is own["forest"]

    def test_it_adapts_unless_told_not_to(self, retriever_class, session):
        for adapt in (False, True):
            retriever = retriever_class(session, TEXTS, adapt=adapt)
            for query in ("a blue ring", "a red star"):
                retriever.retrieve(query)
            assert (session.state.adapted.updates > 0) is adapt

    def test_it_answers_without_blocking(self, retriever_class, session):
        (found,) = asyncio.run(retriever_class(session, TEXTS, k=1).aretrieve("a red square"))
        assert found.node.node_id == "crimson"


def test_the_page_runs(capsys):
    pytest.importorskip("langchain_core")
    pytest.importorskip("llama_index.core")
    blocks = re.findall(
        r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE.read_text(encoding="utf-8"), re.S
    )
    names: dict[str, object] = {"__name__": "page"}
    assert len(blocks) == 3
    for code, shown in blocks:
        exec(compile(code, "integrations.md", "exec"), names)
        assert capsys.readouterr().out == shown
