"""The driver's duties (`protocols.node`), with fake nodes that write down what they are told."""

import asyncio

import pytest

import holdfast
from holdfast.model.errors import PeerViolation
from holdfast.model.messages import WIRE_VERSION, Frame, Hello, Ping, Pong, Refusal
from holdfast.model.wire import FrameReader, encode
from holdfast.protocols.node import CancelTimer, Connect, Disconnect, Effects, Persist, Report, Send, SetTimer
from holdfast.runtime.connection import ConnectionLimits
from holdfast.runtime.driver import ACCEPT_BACKLOG, Driver
from holdfast.runtime.places import Address


class FakeNode:
    """Notes every call, and answers each with the effects that a test has laid out for it."""

    def __init__(
        self, name: str, answers: dict[str, Effects] | None = None, failures: dict[str, Exception] | None = None
    ) -> None:
        self.name = name
        self.history: list[str] = []
        self._answers, self._failures = answers or {}, failures or {}
        self._happened = asyncio.Event()

    def _note(self, what: str) -> Effects:
        self.history.append(what)
        self._happened.set()
        if what in self._failures:
            raise self._failures[what]
        return self._answers.get(what, [])

    async def has(self, what: str, times: int = 1) -> None:
        """Wait until this has happened that often."""
        async with asyncio.timeout(5):
            while self.history.count(what) < times:
                self._happened.clear()
                await self._happened.wait()

    def start(self, now: float) -> Effects:  # noqa: ARG002
        return self._note("start")

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:  # noqa: ARG002
        number = frame.number if isinstance(frame, Ping | Pong) else ""
        return self._note(f"receive {peer} {type(frame).__name__}{number}")

    def timer(self, name: str, now: float) -> Effects:  # noqa: ARG002
        return self._note(f"timer {name}")

    def peer_up(self, peer: str, now: float) -> Effects:  # noqa: ARG002
        return self._note(f"up {peer}")

    def peer_down(self, peer: str, now: float) -> Effects:  # noqa: ARG002
        return self._note(f"down {peer}")

    def settle(self, now: float) -> Effects:  # noqa: ARG002
        return self._note("settle")

    def stop(self, now: float) -> Effects:  # noqa: ARG002
        return self._note("stop")

    def check_invariants(self) -> None:
        """Nothing to check."""

    def waiting_for(self) -> list[str]:
        return []


def hello(name: str, session: int = 1) -> Hello:
    return Hello(WIRE_VERSION, name, "client", "holdfast", session, False, 0, 0)


def told(node: FakeNode) -> list[str]:
    """What a node was told, without the settlings."""
    return [what for what in node.history if what != "settle"]


async def pair(near: FakeNode, far: FakeNode) -> tuple[Driver, Driver]:
    """Two drivers; the near one knows where the far one listens, and has been started."""
    far_driver = Driver(far, lambda _: None)
    address = await far_driver.listen("127.0.0.1", 0)
    near_driver = Driver(near, lambda peer: address if peer == far.name else None)
    far_driver.start()
    near_driver.start()
    return near_driver, far_driver


def test_a_connection_is_up_for_the_dialler_and_known_by_its_hello_to_the_other():
    async def story():
        near = FakeNode(
            "near", {"start": [Connect("far")], "up far": [Send("far", hello("near")), Send("far", Ping(1))]}
        )
        far = FakeNode("far", {"receive near Ping1": [Send("near", Pong(1))]})
        drivers = await pair(near, far)
        await near.has("receive far Pong1")
        for driver in drivers:
            await driver.close()
        assert told(near) == ["start", "up far", "receive far Pong1"]
        assert told(far)[:3] == ["start", "receive near Hello", "receive near Ping1"]
        # Every turn in which something was handed over is followed by one settling.
        assert far.history.count("settle") <= 4

    holdfast.run(story())


def test_frames_of_one_read_are_settled_once():
    async def story():
        pings: Effects = [Send("far", Ping(number)) for number in range(100)]
        near = FakeNode("near", {"start": [Connect("far")], "up far": [Send("far", hello("near")), *pings]})
        far = FakeNode("far")
        drivers = await pair(near, far)
        await far.has("receive near Ping99")
        await far.has("settle", far.history.count("settle") + 1)
        first = far.history.index("receive near Hello")
        assert far.history[first : first + 101].count("settle") == 0
        for driver in drivers:
            await driver.close()

    holdfast.run(story())


def test_a_newer_connection_of_a_peer_replaces_the_older_which_is_reported_down_first():
    async def story():
        far = FakeNode("far")
        driver = Driver(far, lambda _: None)
        host, port = await driver.listen("127.0.0.1", 0)
        diallers = []
        for number in range(2):
            answers: dict[str, Effects] = {
                "start": [Connect("far")],
                "up far": [Send("far", hello("twin")), Send("far", Ping(number))],
            }
            twin = FakeNode("twin", answers)
            diallers.append((twin, Driver(twin, lambda _, at=(host, port): at)))  # type: ignore[misc]
            diallers[-1][1].start()
            await far.has(f"receive twin Ping{number}")
        await diallers[0][0].has("down far")
        assert told(far) == [
            "receive twin Hello",
            "receive twin Ping0",
            "down twin",
            "receive twin Hello",
            "receive twin Ping1",
        ]
        for _, dialler in diallers:
            await dialler.close()
        await driver.close()

    holdfast.run(story())


def test_disconnect_hands_over_what_was_sent_and_reports_nothing():
    async def story():
        last_words: Effects = [Send("far", hello("near")), Send("far", Ping(7)), Disconnect("far", "enough")]
        near = FakeNode("near", {"start": [Connect("far")], "up far": last_words})
        far = FakeNode("far")
        drivers = await pair(near, far)
        await far.has("down near")
        assert told(far) == ["start", "receive near Hello", "receive near Ping7", "down near"]
        assert told(near) == ["start", "up far"]
        for driver in drivers:
            await driver.close()

    holdfast.run(story())


def test_a_connection_that_cannot_be_made_is_reported_down():
    async def story():
        node = FakeNode("near", {"start": [Connect("far"), Connect("nowhere")]})
        failures: list[tuple[str, str]] = []
        addresses: dict[str, Address] = {"far": ("127.0.0.1", 1)}
        driver = Driver(node, addresses.get, on_dial_failed=lambda peer, reason: failures.append((peer, reason)))
        driver.start()
        await node.has("down far")
        await node.has("down nowhere")
        assert sorted(failures) == [("far", "nobody is listening there"), ("nowhere", "no address is known for it")]
        await driver.close()

    holdfast.run(story())


class FakeDialler(FakeNode):
    """It also wants to hear where nobody listens."""

    def nobody_listens(self, peer: str, now: float) -> Effects:  # noqa: ARG002
        return self._note(f"nobody at {peer}")


def test_a_port_that_refuses_is_told_apart_from_a_peer_that_cannot_be_reached():
    async def story():
        node = FakeDialler("near", {"start": [Connect("gone"), Connect("cut"), Connect("nowhere")]})
        places: dict[str, Address] = {"gone": ("127.0.0.1", 1), "cut": ("127.0.0.1", 1)}
        driver = Driver(node, places.get, limits=ConnectionLimits(connect_s=0.05))
        driver.cut("cut")
        driver.start()
        for peer in ("gone", "cut", "nowhere"):
            await node.has(f"down {peer}")
        await driver.close()
        assert [what for what in told(node) if what.startswith("nobody")] == ["nobody at gone"]
        assert told(node).index("nobody at gone") < told(node).index("down gone")

    holdfast.run(story())


def test_a_wish_for_a_connection_that_is_taken_back_is_not_answered():
    async def story():
        answers: dict[str, Effects] = {"start": [Connect("far"), Disconnect("far", "no"), SetTimer("t", 0.02)]}
        near, far = FakeNode("near", answers), FakeNode("far")
        drivers = await pair(near, far)
        await near.has("timer t")
        assert told(near) == ["start", "timer t"]
        for driver in drivers:
            await driver.close()

    holdfast.run(story())


def test_timers_ring_once_and_reports_reach_every_sink():
    async def story():
        reports: list[str] = []
        node = FakeNode(
            "n",
            {
                "start": [SetTimer("a", 0.001), SetTimer("b", 0.001), CancelTimer("b"), Report("begun")],
                "timer a": [SetTimer("c", 0.001)],
            },
        )
        driver = Driver(node, lambda _: None, sinks=[lambda report: reports.append(report.event)] * 2)
        driver.start()
        await node.has("timer c")
        assert told(node) == ["start", "timer a", "timer c"]
        assert reports == ["begun", "begun"]
        await driver.close()

    holdfast.run(story())


def test_a_frame_for_a_peer_that_is_not_connected_is_dropped():
    async def story():
        node = FakeNode("n", {"start": [Send("nobody", Ping(1))]})
        driver = Driver(node, lambda _: None)
        driver.start()
        await node.has("settle")
        assert not driver.failed.done()
        await driver.close()

    holdfast.run(story())


@pytest.mark.parametrize(
    ("answers", "failures"),
    [
        ({"start": [Persist("key", b"value")]}, {}),
        ({}, {"settle": AssertionError("a state that cannot be")}),
    ],
    ids=["no storage", "invariant"],
)
def test_a_node_that_fails_is_driven_no_further_and_its_failure_is_kept(
    answers: dict[str, Effects], failures: dict[str, Exception]
):
    async def story():
        node = FakeNode("n", answers, failures)
        driver = Driver(node, lambda _: None)
        driver.start()
        with pytest.raises((AssertionError, holdfast.LocalMisuse)):
            await asyncio.wait_for(driver.failed, 5)
        before = list(node.history)
        driver.enter(node.stop)
        driver.settle_now()
        assert node.history == before
        await driver.close()

    holdfast.run(story())


def test_a_violation_that_the_node_finds_costs_the_peer_its_connection_only():
    async def story():
        near = FakeNode(
            "near", {"start": [Connect("far")], "up far": [Send("far", hello("near")), Send("far", Ping(1))]}
        )
        far = FakeNode("far", failures={"receive near Ping1": PeerViolation("no pings here")})
        near_driver, far_driver = await pair(near, far)
        await near.has("down far")
        await far.has("down near")
        assert not far_driver.failed.done()
        await near_driver.close()
        await far_driver.close()

    holdfast.run(story())


def test_a_peer_that_does_not_read_is_cut_when_too_much_lies_unsent():
    async def story():
        flood: Effects = [Send("near", Ping(number)) for number in range(200_000)]
        far = FakeNode("far", {"receive near Hello": flood})
        driver = Driver(far, lambda _: None, limits=ConnectionLimits(write_buffer_bytes_max=1 << 10))
        host, port = await driver.listen("127.0.0.1", 0)
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
        transport.pause_reading()
        transport.write(encode(hello("near")))
        await far.has("down near")
        transport.abort()
        await driver.close()

    holdfast.run(story())


@pytest.mark.parametrize("turns", range(12))
def test_a_wish_that_is_taken_back_at_any_moment_and_made_again_leads_to_one_connection(turns: int):
    """The loop closes what a cancelled attempt has made, in the same turn, without telling anybody."""

    async def story():
        answers: dict[str, Effects] = {
            "start": [Connect("far")],
            "up far": [Send("far", hello("near")), Send("far", Ping(1))],
        }
        near, far = FakeNode("near", answers), FakeNode("far", {"receive near Ping1": [Send("near", Pong(1))]})
        near_driver, far_driver = await pair(near, far)
        for _ in range(turns):
            await asyncio.sleep(0)
        ups = near.history.count("up far")
        near_driver.enter(lambda now: [Disconnect("far", "changed its mind")])  # noqa: ARG005
        near_driver.enter(lambda now: [Connect("far")])  # noqa: ARG005
        await near.has("up far", ups + 1)
        await near.has("receive far Pong1", 1)
        async with asyncio.timeout(4):
            await near_driver.close()
            await far_driver.close()

    holdfast.run(story())


def test_a_node_that_is_replaced_hears_nothing_of_what_the_old_one_had_begun():
    async def story():
        old = FakeNode(
            "old", {"start": [Connect("far"), SetTimer("late", 0.01)], "up far": [Send("far", hello("old"))]}
        )
        far = FakeNode("far")
        driver, far_driver = await pair(old, far)
        await far.has("receive old Hello")
        new = FakeNode("new", {"start": [SetTimer("soon", 0.05)]})
        driver.replace(new)
        driver.start()
        await new.has("timer soon")
        await far.has("down old")
        assert told(new) == ["start", "timer soon"]
        assert driver.peers == []
        await driver.close()
        await far_driver.close()

    holdfast.run(story())


def test_a_node_knows_where_its_peer_is_better_than_the_address_book():
    async def story():
        far = FakeNode("far")
        far_driver = Driver(far, lambda _: None)
        host, port = await far_driver.listen("127.0.0.1", 0)
        near = FakeNode("near", {"start": [Connect("far", f"{host}:{port}"), Connect("lost", "nowhere")]})
        driver = Driver(near, lambda _: (host, 1))
        driver.start()
        await near.has("up far")
        # What a peer told the node need not be an address at all.
        await near.has("down lost")
        near_again: Effects = [Disconnect("far", "once more"), Connect("far")]
        driver.enter(lambda now: near_again)  # noqa: ARG005
        await near.has("up far", 2)
        await driver.close()
        await far_driver.close()

    holdfast.run(story())


def test_nothing_passes_a_cut_and_nobody_is_told_until_it_is_healed():
    async def story():
        again = [SetTimer("again", 0.002)]
        answers: dict[str, Effects] = {
            "start": [Connect("far")],
            "up far": [Send("far", hello("near")), *again],
            "timer again": [Send("far", Ping(1)), *again],
        }
        near, far = FakeNode("near", answers), FakeNode("far")
        near_driver, far_driver = await pair(near, far)
        await far.has("receive near Ping1")
        far_driver.cut("near")
        had = far.history.count("receive near Ping1")
        await near.has("timer again", near.history.count("timer again") + 20)
        assert (far.history.count("receive near Ping1"), far_driver.cuts) == (had, ["near"])
        assert "down far" not in near.history
        far_driver.heal()
        await far.has("receive near Ping1", had + 20)
        await near_driver.close()
        await far_driver.close()

    holdfast.run(story())


def test_who_dials_across_a_cut_waits_until_its_patience_ends_and_succeeds_after_the_heal():
    async def story():
        answers: dict[str, Effects] = {
            "timer go": [Connect("far")],
            "start": [SetTimer("go", 0.0)],
            "down far": [SetTimer("go", 0.0)],
            "up far": [Send("far", hello("near"))],
        }
        near, far = FakeNode("near", answers), FakeNode("far")
        far_driver = Driver(far, lambda _: None)
        address = await far_driver.listen("127.0.0.1", 0)
        near_driver = Driver(near, lambda _: address, limits=ConnectionLimits(connect_s=0.01))
        near_driver.cut("far")
        far_driver.start()
        near_driver.start()
        await near.has("down far", 2)
        assert "up far" not in near.history
        near_driver.heal()
        await far.has("receive near Hello")
        await near_driver.close()
        await far_driver.close()

    holdfast.run(story())


def test_who_is_turned_away_replaces_nobodys_connection():
    class Doorkept(FakeNode):
        def turn_away(self, hello: Hello) -> Refusal | None:
            return Refusal("name", "it is taken") if hello.session > 1 else None

    async def story():
        near = FakeNode("near", {"start": [Connect("far")], "up far": [Send("far", hello("near"))]})
        far = Doorkept("far", {"receive near Hello": [Send("near", Pong(1))]})
        near_driver, far_driver = await pair(near, far)
        await near.has("receive far Pong1")
        reader, writer = await asyncio.open_connection(*far_driver_address(far_driver))
        writer.write(encode(hello("near", session=2)))
        assert FrameReader().feed(await asyncio.wait_for(reader.read(), 5)) == [Refusal("name", "it is taken")]
        writer.close()
        assert told(far) == ["start", "receive near Hello"]
        await near_driver.close()
        await far_driver.close()

    holdfast.run(story())


def far_driver_address(driver: Driver) -> Address:
    assert driver._server is not None
    host, port = driver._server.sockets[0].getsockname()[:2]
    return host, port


def test_as_many_as_the_system_queues_may_connect_before_any_of_them_has_said_who_it_is():
    assert ConnectionLimits().half_open_max > ACCEPT_BACKLOG
