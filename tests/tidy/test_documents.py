"""What the documents say is so: examples can be read, keys and bounds are the program's, the API reference is current.

Examples that take a cluster are run by `tests/integration/docs`.
"""

import inspect
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

import holdfast
from holdfast.cluster import config, reliable_config, site_config
from holdfast.cluster.config import parse_cluster
from holdfast.model.errors import FilterError
from holdfast.model.filters import parse_filter
from holdfast.protocols.config import SUBSCRIPTIONS_MAX
from holdfast.protocols.registry import PROTOCOLS
from holdfast.runtime import settings
from tests.support.documents import (
    CLUSTER_REST,
    RUN_LANGUAGES,
    Example,
    documents,
    examples_in,
    examples_of,
    problems_with,
)
from tests.tidy.sources import PACKAGE, ROOT

EXAMPLES = [one for document in documents() for one in examples_of(document)]
DOCS = ROOT / "docs"

SAID = {
    "sh": r"|not run: .+|second terminal: .+",
    "python": r"|not run: .+|given .+|file \S+",
    "toml": r"|not run: .+|file \S+|part of a cluster file",
    "filter": r"",
    "text": r"output|output of second terminal",
}
"""What may be said of an example, by its language."""


def examples(language: str) -> list[Example]:
    return [one for one in EXAMPLES if one.language == language]


def rows_of(text: str, heading: str) -> list[list[str]]:
    """The cells of every table below a heading, up to the next one, without the heads of the tables."""
    [body] = re.findall(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in body.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    heads = {index for index, row in enumerate(rows) if set("".join(row)) <= set("-: ")}
    return [row for index, row in enumerate(rows) if index not in heads and index + 1 not in heads]


def code(cell: str) -> str:
    found = re.match(r"`(.*?)`", cell)
    return found[1] if found else ""


# --------------------------------------------------------------------------------------------------------- examples


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_is_run_or_says_why_not(example: Example):
    if example.language in SAID:
        assert re.fullmatch(SAID[example.language], example.said), example.said
    else:
        assert not example.said, "a picture is not run"


@pytest.mark.parametrize("example", [one for one in examples("toml") if one.is_run], ids=str)
def test_a_cluster_file_in_a_document_is_a_legal_one(example: Example):
    rest = CLUSTER_REST if example.said == "part of a cluster file" else ""
    parse_cluster(example.text + rest)


@pytest.mark.parametrize("example", [one for one in examples("python") if one.is_run], ids=str)
def test_a_program_in_a_document_is_formatted_as_the_sources_are(example: Example):
    ruff = Path(sys.executable).with_name("ruff")
    ended = subprocess.run(
        [ruff, "format", "--check", "--diff", "--stdin-filename", "example.py", "-"],
        input=example.text,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("example", examples("filter"), ids=str)
def test_a_filter_in_a_document_is_a_legal_one(example: Example):
    for line in example.text.splitlines():
        parse_filter(line)


def test_blocks_and_what_is_said_of_them_are_found():
    text = "<!-- example: file a.py -->\n```python\npass\n```\n\ntext\n\n   ```sh\n   true\n   ```\n```\npicture\n```\n"
    assert examples_in(text, "page.md") == [
        Example("page.md", 2, "python", "file a.py", "pass\n"),
        Example("page.md", 8, "sh", "", "true\n"),
        Example("page.md", 11, "", "", "picture\n"),
    ]


def test_expected_lines_are_looked_for_in_their_order():
    printed = "one\ntwo: 2\nthree\n"
    assert problems_with("one\nt…2\n", printed) == []
    assert problems_with("three\none\n", printed)[0].startswith("expected, and not printed: 'one'")
    assert problems_with("two", printed)


def test_every_language_that_is_run_has_examples():
    assert {one.language for one in EXAMPLES if one.is_run} == set(RUN_LANGUAGES)


# ---------------------------------------------------------------------------------------------------------- filters


def test_the_results_of_filters_are_as_documented():
    rows = rows_of((DOCS / "filters.md").read_text(), "Meaning")
    assert len(rows) > 20
    for text, attributes, result in rows:
        found = parse_filter(code(text)).matches(json.loads(code(attributes)))
        assert found is (result == "true"), (text, attributes)


def test_the_errors_of_filters_are_as_documented():
    rows = rows_of((DOCS / "filters.md").read_text(), "Errors")
    assert rows
    for text, sentence in rows:
        with pytest.raises(FilterError) as raised:
            parse_filter(code(text))
        assert raised.value.sentence == sentence


# ----------------------------------------------------------------------------------------------------- cluster file

EFFECTIVE = {
    "silence_s": settings.WATCHFUL_LINK.silence_s,
    "suspect_s": settings.SUSPECT_S,
    "join_s": settings.JOIN_S,
    "session_s": settings.SESSION_S,
    "session_bytes_max": settings.SESSION_BYTES_MAX,
    "subscriptions_max": SUBSCRIPTIONS_MAX,
}
"""What brokers take where the file says nothing."""

SECTIONS: list[tuple[str, type[Struct]]] = [
    ("The cluster", config._File),
    ("Brokers", config._BrokerEntry),
    ("Sites", site_config.SiteEntry),
    ("Clients", config._ClientEntry),
    ("Repositories", reliable_config._RepositoryEntry),
    ("Reliable topics", reliable_config._ReliableEntry),
    ("Machines", config._MachineEntry),
]


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is msgspec.NODEFAULT:
        return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else msgspec.NODEFAULT
    return field.default


@pytest.mark.parametrize(("heading", "kind"), SECTIONS, ids=[heading for heading, _ in SECTIONS])
def test_the_cluster_file_is_documented_key_by_key(heading: str, kind: type[Struct]):
    rows = {code(row[0]): row[2] for row in rows_of((DOCS / "cluster-file.md").read_text(), heading)}
    fields = {field.name: default_of(field) for field in msgspec.structs.fields(kind)}
    assert sorted(rows) == sorted(fields)
    for key, default in fields.items():
        said = rows[key]
        if default is msgspec.NODEFAULT:
            assert said == "required", key
        elif (value := EFFECTIVE.get(key, default)) is not None:
            assert tomllib.loads(f"it = {code(said)}")["it"] == (list(value) if isinstance(value, tuple) else value)


def test_the_cluster_file_and_the_readme_name_every_protocol():
    rows = {code(row[0]): row[3] for row in rows_of((DOCS / "cluster-file.md").read_text(), "The cluster")}
    said = re.findall(r"`([a-z-]+)`", rows["protocol"].partition(". `holdfast protocols`")[0])
    assert said == list(PROTOCOLS)
    table = rows_of((ROOT / "README.md").read_text(), "Protocols")
    assert sorted(code(row[0]) for row in table) == sorted(PROTOCOLS)


# ---------------------------------------------------------------------------------------------------------- glossary

GLOSSARY_WORDS_MAX = 40


def test_the_glossary_of_the_code_is_short_and_in_order_and_the_code_uses_its_words():
    rows = [row for row in rows_of((DOCS / "glossary.md").read_text(), "Glossary of the code") if row]
    words = [row[0] for row in rows]
    assert len(words) <= GLOSSARY_WORDS_MAX
    assert words == sorted(set(words))
    for word, _, where in rows:
        path = PACKAGE / code(where) if not code(where).startswith("docs/") else ROOT / code(where)
        found = sorted(path.glob("*.py")) if path.is_dir() else [path]
        last = word.rpartition(" ")[2]
        assert any(last in file.read_text().lower() for file in found), word


# ------------------------------------------------------------------------------------------------------------ limits


def test_the_limits_are_those_of_the_program():
    rows = rows_of_all((DOCS / "limits.md").read_text())
    assert len(rows) > 30
    for row in rows:
        for name in re.findall(r"`([\w.]+)`", row[-1]):
            assert number_of(row[1]) == value_of(name), row


def rows_of_all(text: str) -> list[list[str]]:
    return [row for heading in re.findall(r"^## (.*)$", text, re.MULTILINE) for row in rows_of(text, heading)]


def number_of(cell: str) -> float:
    """A number as the page writes it: 4,096, 64 KiB, 1 MiB, 30 s, 5 min, 7 days."""
    found = re.match(r"([\d.,]+)(?: (KiB|MiB|GiB|s|ms|min|days))?", cell)
    assert found, cell
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "ms": 0.001, "min": 60, "days": 86_400}
    return float(found[1].rstrip(",.").replace(",", "")) * units.get(found[2], 1)


def value_of(name: str) -> Any:
    """A constant, or the default of a field, by the place where it stands: `model.batches.KEYS_MAX`."""
    module_name, _, rest = name.partition(".")
    parts = [module_name, *rest.split(".")]
    for split in range(len(parts) - 1, 0, -1):
        try:
            found: Any = __import__("holdfast." + ".".join(parts[:split]), fromlist=["_"])
        except ModuleNotFoundError:
            continue
        for part in parts[split:]:
            if isinstance(found, type) and issubclass(found, Struct):
                return next(field.default for field in msgspec.structs.fields(found) if field.name == part)
            found = getattr(found, part)
        return found
    raise AssertionError(f"there is no {name}")


# --------------------------------------------------------------------------------------------------- API reference


def test_the_api_reference_is_what_the_docstrings_say():
    ended = subprocess.run(
        [sys.executable, ROOT / "scripts" / "api-reference", "--check"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("kind", [holdfast.Client, holdfast.SyncClient, holdfast.Subscription])
def test_the_api_reference_has_the_methods_that_help_shows_and_no_others(kind: type):
    said = re.findall(rf"^#### {kind.__name__}\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    helped = {name for name in dir(kind) if not name.startswith("_") and inspect.isfunction(getattr(kind, name))}
    assert sorted(said) == sorted(helped)


# ------------------------------------------------------------------------------------------------------ architecture


def test_the_picture_of_the_rooms_is_what_the_sources_say():
    script = ROOT / "scripts" / "architecture"
    ended = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("walk", ["A causal message", "A total message", "A crash"])
def test_a_walk_leads_through_functions_that_are_there(walk: str):
    rows = rows_of((DOCS / "architecture.md").read_text(), walk)
    assert len(rows) > 5
    for where, function, _ in rows:
        assert f"def {code(function)}(" in (PACKAGE / code(where)).read_text(), (where, function)
