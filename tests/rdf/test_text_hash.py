from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.util import hash_array

from cqels_opt.rdf import text_hash
from cqels_opt.rdf.text_hash import hashes

KEY = "0123456789abcdef"


@given(st.lists(st.text()), st.text("0123456789abcdef", min_size=16, max_size=16))
def test_it_is_the_hash_of_pandas(texts: list[str], key: str) -> None:
    array = np.array(texts, dtype=object)
    assert hashes(array, key).tolist() == hash_array(array, hash_key=key, categorize=False).tolist()


def test_ids_of_stores_stay() -> None:
    assert hashes(np.array(["<http://example.org/a>", "é"], dtype=object), KEY).tolist() == [
        11832575767045262365,
        3371813554159445139,
    ]


def test_a_pandas_without_the_module_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.array(["a", "b"], dtype=object)
    expected = hashes(array, KEY).tolist()
    monkeypatch.setattr(text_hash, "_MODULE", "pandas._libs.moved")
    text_hash._function.cache_clear()
    try:
        assert hashes(array, KEY).tolist() == expected
    finally:
        text_hash._function.cache_clear()


@pytest.mark.parametrize("first", ["import pandas", "pass"])
def test_pandas_works_before_and_after(first: str) -> None:
    program = (
        f"{first}\nimport sys\nimport numpy as np\nfrom cqels_opt.rdf.text_hash import hashes\n"
        f"found = hashes(np.array(['a'], dtype=object), {KEY!r})\nprint('pandas' in sys.modules)\n"
        f"import pandas as pd\nassert pd.util.hash_array(np.array(['a'], dtype=object), hash_key={KEY!r}, categorize=False) == found\n"
        "assert pd.DataFrame({'a': ['x', 'y']}).groupby('a').size().tolist() == [1, 1]\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{first != 'pass'}\n", "")
