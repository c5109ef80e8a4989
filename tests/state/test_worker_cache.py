"""What a worker keeps must not outlive what it was made of: a folder may be emptied and filled with another relation."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from cqels_opt.lod.build import build_store
from cqels_opt.lod.relation import Relation
from cqels_opt.operators.evaluation_step import EvaluationStep, StepFiles
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.stream_output import json_of
from cqels_opt.operators.term_table import Page, write_page
from cqels_opt.rdf.ids import PUBLIC, IdScheme, encode_one
from cqels_opt.state import worker_cache

A, B = "<http://a.org/zrcn1imlm5dc>", "<http://a.org/hb4mggqwr1rn>"
"""Two terms with one id under the public key."""


def written(store: Path, ids: list[int], scheme: IdScheme = PUBLIC) -> list[str]:
    """Terms as JSON, by a step that this process runs over a store."""
    step = EvaluationStep("", "", 0, 0, 0, np.array([0]), StepFiles(), {})
    found: list[str] = json_of(np.array(ids), worker_cache.term_table(str(store), scheme, step)).to_pylist()
    return found


def shown(*terms: str) -> list[str]:
    return [f'{{"type": "uri", "value": "{term[1:-1]}"}}' for term in terms]


def only(folder: Path, term: str, scheme: IdScheme = PUBLIC) -> Path:
    build_store(folder, [(term, "<http://p>", "<http://o>", None)], scheme=scheme, durable=False)
    return folder


def test_a_relation_that_took_another_ones_place_is_opened_anew(tmp_path: Path) -> None:
    folder = tmp_path / "relation0"
    for values in ([1, 2], [3, 4, 5]):
        shutil.rmtree(folder, ignore_errors=True)
        Relation.build({"x": np.array(values, np.int64)}).save(folder)
        assert worker_cache.relation("", str(folder)).columns["x"].tolist() == values


def test_the_terms_of_two_stores_do_not_mix(tmp_path: Path) -> None:
    """One id is another term in each of them."""
    (same,) = {encode_one(A, PUBLIC), encode_one(B, PUBLIC)}
    one, other = only(tmp_path / "one", A), only(tmp_path / "other", B)
    for _ in range(2):  # the second time from what is kept
        assert written(one, [same]) == shown(A)
        assert written(other, [same, encode_one("<http://p>", PUBLIC)]) == shown(B, "<http://p>")
    known = worker_cache.term_ids(str(one), PUBLIC)
    known[A] = same
    assert worker_cache.term_ids(str(one), PUBLIC) is known
    assert worker_cache.term_ids(str(other), PUBLIC) == {}


def test_the_terms_of_a_store_that_is_replaced_are_not_those_of_the_one_before(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    for term in (A, B):
        shutil.rmtree(folder, ignore_errors=True)
        assert written(only(folder, term), [encode_one(term, PUBLIC)]) == shown(term)


def test_each_scheme_has_terms_of_its_own(tmp_path: Path) -> None:
    """With another key, or once a term has a second id, the ids are others."""
    folder = only(tmp_path / "store", A)
    worker_cache.term_ids(str(folder), PUBLIC)[A] = encode_one(A, PUBLIC)
    assert written(folder, [encode_one(A, PUBLIC)]) == shown(A)
    displaced = PUBLIC.displacing([A])
    assert encode_one(A, displaced) != encode_one(A, PUBLIC)
    for scheme in (displaced, IdScheme.of_seed(3)):
        assert worker_cache.term_ids(str(folder), scheme) == {}
        own = only(tmp_path / scheme.key / str(len(scheme.displaced)), A, scheme)
        assert written(own, [encode_one(A, scheme)], scheme) == shown(A)


@pytest.mark.parametrize("seed", range(6))
def test_pages_that_come_and_go_are_searched_as_few(tmp_path: Path, seed: int) -> None:
    """As in batches: the oldest pages expire, some are merged into a large one, and others are written; terms are on several pages."""
    rng = np.random.default_rng(seed)
    terms = {int(number): f'"{number}"' for number in rng.choice(1 << 40, 40_000, replace=False)}
    every, files, most = np.array([*terms]), list[Path](), 0

    def write(number: int, size: int) -> None:
        some = rng.choice(every, size, replace=False)
        files.append(tmp_path / f"page-{number}.arrow")
        write_page(files[-1], some, [terms[one] for one in some.tolist()])

    for number in range(60):
        write(number, int(rng.integers(1, 200)) if rng.random() < 0.9 else 20_000)
        del files[: int(rng.integers(0, 3)) if len(files) > 25 else 0]
        if rng.random() < 0.1 and len(files) > 3:
            del files[1]  # a merge has replaced it
        pages = worker_cache.pages(files)
        wanted = np.concatenate([rng.choice(every, 300), rng.choice(1 << 40, 100)])
        held = {one: terms[one] for file in files for one in worker_cache.page(file).ids.tolist()}
        found = {one: text for page in pages for one, text in zip(wanted.tolist(), texts_of(page, wanted)) if text is not None}
        assert found == {one: held[one] for one in wanted.tolist() if one in held}
        large = sum(len(worker_cache.page(file)) > worker_cache.SMALL_PAGE for file in files)
        most = max(most, len(pages) - large)
    assert most <= 2


def texts_of(page: Page, wanted: Ints) -> list[str | None]:
    places, texts = page.among(wanted)
    found = dict(zip(places.tolist(), texts.to_pylist()))
    return [found.get(place) for place in range(len(wanted))]
