"""Whatever an application passes to a public call: it works, or one sentence says at once what is wrong with it.

After that the session is as good as before. Nothing that the broker could not read has been queued.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from enum import Enum
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.model.messages import SubscribeAck
from tests.integration.support_brokers import PATIENCE_S, address_of, broker_here

CALL_S = 3.0
"""A call that has not ended by then hangs: a wrong argument is refused at once, and a right one works in milliseconds.
"""


class Strange:
    """An object that no call knows."""

    def __repr__(self) -> str:
        return "Strange()"


class Text(str):
    """Text as other libraries have it: it equals a `str`, and no encoder knows it."""

    __slots__ = ()


WRONG = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(1 << 63, 1 << 70),
    st.floats(),
    st.binary(max_size=4),
    st.sampled_from(["", " ", "a", "\ud800", "\x00", "a b", "#", "~x", "é" * 2000]),
    st.builds(Strange),
    st.sampled_from([Text("a/b"), Text("causal"), Text("block"), Text("")]),
    st.lists(st.one_of(st.integers(0, 3), st.just([]), st.text(max_size=2)), max_size=2),
    st.dictionaries(st.text(max_size=2), st.one_of(st.none(), st.integers(0, 3)), max_size=2),
    st.sampled_from([object, len, {1, 2}, (1, "a"), range(2), 3j, ...]),
)

SESSION_CALLS: dict[str, tuple[str, ...]] = {
    "publish": ("topic", "payload", "guarantee", "keys", "attributes"),
    "publish_many": ("topic", "payloads", "guarantee", "keys", "attributes"),
    "subscribe": (
        *("pattern", "where", "slow", "slow_s", "slow_bytes", "start"),
        *("ack", "redeliver", "unacked_max"),
    ),
}
RIGHT: dict[str, dict[str, Any]] = {
    "publish": {"topic": "a/b", "payload": b"x"},
    "publish_many": {"topic": "a/b", "payloads": [b"x"]},
    "subscribe": {"pattern": "a/b"},
}
CASES = [(call, argument) for call, arguments in SESSION_CALLS.items() for argument in arguments]
CONNECT_ARGUMENTS = (
    "address",
    "name",
    "cluster",
    "trace",
    "run",
    "timeout_s",
    "give_up_s",
    "backlog_bytes_max",
    "link",
    "patient",
    "reliable",
    "ssl",
    "reconnect",
    "on_connected",
    "on_disconnected",
    "on_gap",
)


def clear(error: Exception) -> Exception:
    """The error, if it is one that Holdfast raises on purpose, with a sentence."""
    assert isinstance(error, holdfast.HoldfastError), f"{type(error).__name__}: {error}"
    assert " " in str(error)
    return error


async def outcome(call: Callable[[], Any]) -> object:
    """The result of a call, or the error that it raised, in time."""
    try:
        async with asyncio.timeout(CALL_S):
            result = call()
            return await result if asyncio.iscoroutine(result) or hasattr(result, "__await__") else result
    except TimeoutError:
        raise
    except Exception as error:  # noqa: BLE001
        return clear(error)


async def works(client: holdfast.Client) -> None:
    """The session publishes, subscribes and confirms."""
    async with asyncio.timeout(CALL_S), client.subscribe("still/works") as inbox:
        receipt = await client.publish("still/works", b"yes", durable=False)  # "#" may have been declared reliable
        assert (await inbox.get(CALL_S)).payload == b"yes"
        await receipt.confirmed()


def play(story: Callable[[str], Coroutine[Any, Any, None]]) -> None:
    async def scene() -> None:
        async with broker_here() as broker:
            await story(address_of(broker))

    holdfast.run(scene())


# ------------------------------------------------------------------------------------------------- as it was found


def test_a_subscription_with_none_as_its_filter_is_refused_at_once_and_the_session_goes_on():
    async def story(address: str) -> None:
        async with holdfast.connect(address, name="alice") as client:
            with pytest.raises(
                holdfast.FilterError, match=r"^A filter is a string such as 'amount > 100', not NoneType\.\Z"
            ):
                await asyncio.wait_for(client.subscribe("a/b", where=None), CALL_S)  # type: ignore[call-overload]
            await works(client)

    play(story)


def test_a_cluster_that_is_no_string_is_refused_at_once():
    async def story(address: str) -> None:
        with pytest.raises(holdfast.LocalMisuse, match=r"connect.cluster=None.: expected a string of 1 to 128"):
            await asyncio.wait_for(holdfast.connect(address, cluster=None), CALL_S)  # type: ignore[arg-type]

    play(story)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"durable": True}, r"subscribe\(durable=True\): a durable subscription has a name"),
        ({"start": "live"}, r"subscribe\(start='live'\): only a durable subscription has a start"),
        ({"start": "start"}, r"subscribe\(start='start'\): only a durable subscription has a start"),
        ({"durable": "billing", "start": 1 << 70}, "a subscription begins at 'start', 'live', a sequence number"),
        ({"durable": "billing", "ack": "manual", "unacked_max": "7"}, "unacked_max is from 1 to 2048, not '7'"),
        ({"durable": "billing", "ack": []}, 'ack is "auto" or "manual"'),
        ({"durable": 7}, "a durable subscription has a name"),
        ({"durable": None}, "a durable subscription has a name"),
        ({"durable": "n" * 129}, "at most 128 bytes"),
        ({"durable": "\ud800"}, "a durable subscription has a name"),
    ],
    ids=str,
)
def test_what_a_subscription_cannot_be_is_said_where_it_is_asked_for(arguments: dict[str, Any], sentence: str):
    async def story(address: str) -> None:
        async with holdfast.connect(address, name="alice") as client:
            with pytest.raises(holdfast.LocalMisuse, match=sentence):
                client.subscribe("a/b", **arguments)

    play(story)


@pytest.mark.parametrize("durable", [7, [], {"a": 1}, b"bank/#", 1.5, object()], ids=lambda one: type(one).__name__)
def test_a_publication_that_is_durable_in_no_way_we_know_is_refused_at_once(durable: Any):
    async def story(address: str) -> None:
        async with holdfast.connect(address, name="alice", reliable="bank/#") as client:
            if durable:
                with pytest.raises(holdfast.MessageError, match="durable is True, False, None or the name of a stream"):
                    await client.publish("a/b", b"x", durable=durable)
            assert client.next_seq == 1
            await works(client)

    play(story)


NOT_EMPTY: tuple[dict[str, Any], ...] = (
    {"keys": ""},
    {"keys": 0},
    {"keys": b""},
    {"attributes": 0},
    {"attributes": []},
    {"attributes": ""},
)


@pytest.mark.parametrize("extras", NOT_EMPTY, ids=str)
def test_keys_and_attributes_that_are_none_are_not_taken_for_empty_ones(extras: dict[str, Any]):
    async def story(address: str) -> None:
        async with holdfast.connect(address, name="alice", reliable="bank/#") as client:
            for topic in ("a/b", "bank/b"):
                with pytest.raises(holdfast.MessageError, match=r"keys are a list of|attributes are a mapping"):
                    await client.publish(topic, b"x", **extras)
            assert client.next_seq == 1
            await client.publish("a/b", b"x", keys=[], attributes={})

    play(story)


def test_a_member_of_an_enumeration_of_strings_is_published_by_its_value():
    class Topic(str, Enum):  # noqa: UP042 - its members are printed by their names
        ORDERS = "bank/orders"

    async def story(address: str) -> None:
        async with holdfast.connect(address, name="alice") as client:
            inbox = await client.subscribe(Topic.ORDERS)
            await client.publish(Topic.ORDERS, b"x", keys=[Topic.ORDERS], attributes={"on": Topic.ORDERS})
            message = await inbox.get(CALL_S)
            assert (message.topic, message.keys, message.attributes) == (
                "bank/orders",
                ("bank/orders",),
                {"on": "bank/orders"},
            )

    play(story)


def test_text_of_another_type_that_equals_a_topic_of_before_is_published_as_that_topic():
    async def story(address: str) -> None:
        async with holdfast.connect(address, name="alice") as client:
            inbox = await client.subscribe(Text("a/b"), Text("n < 9"), slow=Text("drop-oldest"))  # type: ignore[call-overload]
            await client.publish("a/b", b"first", attributes={"n": 1})
            receipt = await client.publish(Text("a/b"), b"second")
            await client.publish_many(Text("a/b"), [b"third"], "fifo", [Text("k")], {Text("n"): 1})
            assert [(await inbox.get(CALL_S)).payload for _ in range(2)] == [b"first", b"third"]
            await receipt.confirmed()
            assert type(receipt.topic) is str
            await works(client)

    play(story)


# --------------------------------------------------------------------------------------------------- whatever comes


@pytest.mark.parametrize(("call", "argument"), CASES, ids=str)
def test_whatever_is_passed_works_or_is_refused_with_a_sentence(call: str, argument: str):
    async def story(address: str) -> None:
        async with holdfast.connect(address, name="alice") as client:
            loop = asyncio.get_running_loop()

            @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
            @given(WRONG)
            def attempt(value: object) -> None:
                arguments = {**RIGHT[call], argument: value}
                trial = outcome(lambda: getattr(client, call)(**arguments))
                result = asyncio.run_coroutine_threadsafe(trial, loop).result(2 * CALL_S)
                if isinstance(result, holdfast.Subscription):
                    asyncio.run_coroutine_threadsafe(result.unsubscribe(), loop).result(CALL_S)

            await asyncio.to_thread(attempt)
            await works(client)

    play(story)


@pytest.mark.parametrize("argument", CONNECT_ARGUMENTS)
def test_whatever_connect_is_told_it_works_or_is_refused_with_a_sentence(argument: str, tmp_path: Any):
    async def story(address: str) -> None:
        loop = asyncio.get_running_loop()

        async def connect(value: object) -> None:
            arguments: dict[str, Any] = {"address": address, "timeout_s": CALL_S / 2, argument: value}
            if argument == "trace" and isinstance(value, str):
                arguments[argument] = tmp_path / "trace" / value[:50] if value else value
            result = await outcome(lambda: holdfast.connect(**arguments))
            if isinstance(result, holdfast.Client):
                await works(result)
                await result.close()

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(WRONG)
        def attempt(value: object) -> None:
            asyncio.run_coroutine_threadsafe(connect(value), loop).result(4 * CALL_S)

        await asyncio.to_thread(attempt)

    play(story)


@pytest.mark.parametrize("call", ["get", "confirmed", "forget_subscription.name", "forget_subscription.pattern"])
def test_whatever_a_subscription_or_a_receipt_is_asked_is_answered_or_refused_with_a_sentence(call: str):
    async def story(address: str) -> None:
        async with holdfast.connect(address, name="alice") as client:
            loop = asyncio.get_running_loop()
            inbox = await client.subscribe("a/b")
            receipt = await client.publish("a/c", b"x")

            async def ask(value: Any) -> None:
                if call == "get":
                    await client.publish("a/b", b"x")
                    await client.flush()
                    await outcome_or_timeout(lambda: inbox.get(value))
                elif call == "confirmed":
                    await outcome(lambda: receipt.confirmed(by=value))
                else:
                    name, pattern = (value, 7) if call.endswith("name") else ("billing", value)
                    if call.endswith("name") or not isinstance(value, str):
                        result = await outcome(lambda: client.forget_subscription(name, pattern))  # type: ignore[arg-type]
                        assert isinstance(result, holdfast.LocalMisuse)

            @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
            @given(WRONG)
            def attempt(value: object) -> None:
                asyncio.run_coroutine_threadsafe(ask(value), loop).result(2 * CALL_S)

            await asyncio.to_thread(attempt)
            await works(client)

    play(story)


async def outcome_or_timeout(call: Callable[[], Any]) -> object:
    try:
        return await outcome(call)
    except TimeoutError as error:
        return error


def test_a_trace_whose_callable_raises_ends_nothing():
    taken: list[str] = []

    def take(row: holdfast.Event) -> None:
        taken.append(row.event)
        raise OSError("the disk of the application is full")

    async def story(address: str) -> None:
        async with holdfast.connect(address, name="alice", trace=take) as client:
            await works(client)

    play(story)
    assert {"publish", "deliver"} <= set(taken)


# ----------------------------------------------------------------------------------- what gets past all the checks


@pytest.mark.parametrize("tolerance", [0, 1])
def test_a_client_that_is_thrown_out_hears_why_once_and_does_not_come_back_with_the_same(tolerance: int):
    """A defect of ours, or a client in another language, may still send what no broker reads."""

    async def story() -> None:
        async with broker_here(tolerance=tolerance) as broker:
            events: list[str] = []
            broker.driver._sinks += (lambda report: events.append(report.event),)
            client = await holdfast.connect(address_of(broker), name="alice")
            inbox = await client.subscribe("a")
            client._machine._hub.send(client._machine._broker, SubscribeAck("no number"))  # type: ignore[arg-type]
            client._driver.settle_soon()
            client._driver.carry_out(client._machine._hub.take())
            with pytest.raises(holdfast.Gap, match=r"lost its session at b0: the peer sent .* no Holdfast frame"):
                await inbox.get(CALL_S)
            with pytest.raises(holdfast.SessionLost, match="no Holdfast frame"):
                await client.publish("a", b"x")
            await client.close()
            assert (events.count("attach"), events.count("violation")) == (1, 1)

    holdfast.run(story())


# --------------------------------------------------------------------------------------------------- without asyncio


@pytest.fixture
def address() -> Iterator[str]:
    """A broker that runs in a thread of its own for the time of a test."""
    ready, said = threading.Event(), []

    async def serve() -> None:
        async with broker_here() as broker:
            over = asyncio.Event()
            said.append((asyncio.get_running_loop(), over, broker.port))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: holdfast.run(serve()))
    thread.start()
    assert ready.wait(PATIENCE_S)
    loop, over, port = said[0]
    yield f"holdfast://127.0.0.1:{port}"
    loop.call_soon_threadsafe(over.set)
    thread.join()


@pytest.mark.parametrize(("call", "argument"), [*CASES, ("flush", "timeout_s")], ids=str)
def test_without_asyncio_whatever_is_passed_works_or_is_refused_with_a_sentence(call: str, argument: str, address: str):
    with holdfast.connect_sync(address, name="alice") as client:

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(WRONG)
        def attempt(value: object) -> None:
            try:
                result = getattr(client, call)(**{**RIGHT.get(call, {}), argument: value})
            except TimeoutError:
                assert argument == "timeout_s"
            except Exception as error:  # noqa: BLE001
                clear(error)
            else:
                if isinstance(result, holdfast.SyncSubscription):
                    result.unsubscribe()

        attempt()
        with client.subscribe("still/works") as inbox:
            client.publish("still/works", b"yes").confirmed(CALL_S)
            assert inbox.get(CALL_S).payload == b"yes"


@pytest.mark.parametrize("call", ["get", "accepted", "held", "confirmed"])
def test_without_asyncio_a_time_that_is_none_is_refused_with_a_sentence(call: str, address: str):
    with holdfast.connect_sync(address, name="alice") as client, client.subscribe("a/b") as inbox:
        receipt = client.publish("a/b", b"x").accepted(CALL_S)
        asked: Any = inbox if call == "get" else receipt
        wrongs: list[Any] = ["1", float("nan"), [], True, {}, b"1"]
        for wrong in wrongs:
            with pytest.raises(holdfast.LocalMisuse, match=r"timeout_s=.*: expected seconds"):
                getattr(asked, call)(wrong)
        assert inbox.get(CALL_S).payload == b"x"
