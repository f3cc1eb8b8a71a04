"""What `holdfast` exports: every name that a public signature mentions, and two ways to connect that take the same."""

import ast
import inspect
import pydoc
import re
from collections.abc import Iterator

import pytest

import holdfast
from holdfast import connect, connect_sync

CLASSES = [thing for name in holdfast.__all__ if inspect.isclass(thing := getattr(holdfast, name))]


def functions_of(thing: type) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The methods for applications that a class itself defines."""
    [tree] = ast.parse(inspect.getsource(thing)).body
    assert isinstance(tree, ast.ClassDef)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_public(thing, node.name):
            yield node


def _is_public(thing: type, name: str) -> bool:
    return not name.startswith("_") and name in dir(thing)


def names_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names in the annotations of a function; those in quotes as well."""
    arguments = function.args
    annotations = [one.annotation for one in (*arguments.args, *arguments.kwonlyargs) if one.annotation]
    if arguments.kwarg is not None and arguments.kwarg.annotation is not None:
        annotations.append(arguments.kwarg.annotation)
    if function.returns is not None:
        annotations.append(function.returns)
    found = set()
    for annotation in annotations:
        for node in ast.walk(annotation):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                found.add(node.value)
    return found


def names_of_ours(module: object) -> set[str]:
    """The names that a module has from Holdfast: those that it imports from there, and its own."""
    tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]
    found = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast"):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize(
    "thing", [one for one in CLASSES if not issubclass(one, BaseException)], ids=lambda thing: thing.__name__
)
def test_every_name_in_a_public_signature_is_exported(thing: type):
    if thing.__module__.startswith("holdfast.model"):
        pytest.skip("messages and entries are values: their fields are what they have")
    ours = names_of_ours(inspect.getmodule(thing))
    mentioned = set().union(*map(names_in, functions_of(thing)))
    assert sorted((mentioned & ours) - set(holdfast.__all__) - {"T", "T_co", "C"}) == []


def test_every_name_in_the_signature_of_connect_is_exported():
    [function] = ast.parse(inspect.getsource(connect)).body
    assert isinstance(function, ast.FunctionDef)
    ours = names_of_ours(inspect.getmodule(connect))
    assert sorted((names_in(function) & ours) - set(holdfast.__all__)) == []


def test_connecting_without_asyncio_takes_what_connecting_takes():
    asynchronous, synchronous = inspect.signature(connect), inspect.signature(connect_sync)
    assert synchronous.parameters == asynchronous.parameters
    assert synchronous.return_annotation is holdfast.SyncClient


@pytest.mark.parametrize("name", holdfast.__all__)
def test_every_exported_name_is_there(name: str):
    assert getattr(holdfast, name) is not None


@pytest.mark.parametrize("thing", CLASSES, ids=lambda thing: thing.__name__)
def test_help_leaves_out_what_is_for_other_parts_of_the_client(thing: type):
    internal = {name for one in thing.__mro__ for name in vars(one).get("_internal", ())}
    assert [name for name in internal if not hasattr(thing, name)] == [], "a name that the class does not have"
    shown = pydoc.plain(pydoc.render_doc(thing))
    assert [name for name in internal if re.search(rf"^ \|  (async )?{name}\b", shown, re.MULTILINE)] == []


@pytest.mark.parametrize("thing", [holdfast.Client, holdfast.SyncClient], ids=lambda thing: thing.__name__)
def test_the_help_of_a_client_is_what_applications_call(thing: type):
    methods = {name for name in dir(thing) if not name.startswith("_")}
    assert methods >= {"publish", "publish_many", "subscribe", "forget_subscription", "flush", "close"}
    assert not re.search(rf"^ \|  {thing.__name__}\(", pydoc.plain(pydoc.render_doc(thing)), re.MULTILINE), (
        "its arguments"
    )
    assert not methods & {"open", "checked", "publish_nowait", "wait_accepted", "subscribe_as", "call", "after_outbox"}
