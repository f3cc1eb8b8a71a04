"""Tables of TOML as they are written for scenarios: whatever is in a string, they are read back as they were."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from holdfast.simulation.tables import print_toml

texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts, texts)
def test_every_string_is_read_back_as_it_was_written(key: str, text: str):
    document = {"note": text, "table": {key: text}, "rows": [{"list": [text], "inner": {key: 1}}]}
    assert tomllib.loads(print_toml(document)) == document


def test_the_character_that_json_leaves_alone_and_toml_refuses_is_escaped():
    assert tomllib.loads(print_toml({"note": "a\x7fb"})) == {"note": "a\x7fb"}
