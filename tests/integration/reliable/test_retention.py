"""What is too old or too much goes while the repository runs, and what readers are told of it; the figures of that."""

import re
from pathlib import Path

import pytest

import holdfast
from holdfast.client.errors import Gap
from holdfast.model.reliable import Retention
from holdfast.runtime.exposition import Metric, exposition
from holdfast.services.repository import RepositoryService
from holdfast.services.repository_metrics import repository_metrics
from tests.integration.reliable.bundles import STREAM, payload_of, publish, read, repository_here
from tests.integration.support_brokers import address_of, broker_here, until

SIZE_BYTES = 1000


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.services.housekeeping.EVERY_S", 0.02)


def kept(service: RepositoryService) -> int:
    return service.machine.streams[STREAM].stream_state.kept


def messages(first: int, last: int) -> list[bytes]:
    return [payload_of("alice", number, SIZE_BYTES) for number in range(first, last + 1)]


@pytest.mark.parametrize("kind", ["sqlite", "segments"])
def test_the_oldest_go_when_it_is_too_much_but_not_what_somebody_has_still_to_read(tmp_path: Path, kind: str):
    retention = {STREAM: Retention(keep_bytes=30 * SIZE_BYTES)}
    store = f"{kind}:{tmp_path / 'kept'}"

    async def story() -> None:
        async with (
            broker_here() as broker,
            holdfast.connect(address_of(broker), name="alice") as alice,
            repository_here(broker, store=store, retention=retention) as one,
        ):
            async with alice.subscribe(STREAM, durable="billing") as billing:
                await publish(alice, 1, 40, SIZE_BYTES)
                assert await read(billing, 10) == messages(1, 10)
            await publish(alice, 41, 100, SIZE_BYTES)
            await until(lambda: kept(one) == 11, "all goes that billing has read, though it is not enough")
            late = await alice.subscribe(STREAM, durable="late", start=3)
            assert await read(late, 1) == messages(11, 11), "a new one begins with what is there"
            await late.unsubscribe()
            again = await alice.subscribe(STREAM, durable="billing")
            assert await read(again, 90) == messages(11, 100)
            again = await alice.subscribe(STREAM, durable="late")
            assert await read(again, 89) == messages(12, 100)
            await publish(alice, 101, 101, SIZE_BYTES)
            assert await read(again, 1) == messages(101, 101)
            await until(lambda: kept(one) > 60, "the rest goes")

    holdfast.run(story())


def test_what_is_old_goes_and_who_had_not_read_it_gets_a_gap_if_the_setting_says_so():
    retention = {STREAM: Retention(keep_s=0.2, keep_unread=False)}

    async def story() -> None:
        async with (
            broker_here() as broker,
            holdfast.connect(address_of(broker), name="alice") as alice,
            repository_here(broker, retention=retention) as one,
        ):
            async with alice.subscribe(STREAM, durable="billing") as billing:
                await publish(alice, 1, 20, SIZE_BYTES)
                assert await read(billing, 5) == messages(1, 5)
            await until(lambda: kept(one) == 21, "everything is too old")
            back = await alice.subscribe(STREAM, durable="billing")
            with pytest.raises(Gap, match="15 messages of alice to bank/# were forgotten before they were read"):
                await back.get(10)
            await publish(alice, 21, 22, SIZE_BYTES)
            assert await read(back, 2) == messages(21, 22)

    holdfast.run(story())


def test_the_figures_say_what_is_stored_and_how_far_everybody_is(tmp_path: Path):
    async def story() -> str:
        async with (
            broker_here() as broker,
            holdfast.connect(address_of(broker), name="alice") as alice,
            repository_here(broker, store=f"sqlite:{tmp_path / 'kept'}") as one,
        ):
            async with alice.subscribe(STREAM, durable="billing") as billing:
                await publish(alice, 1, 20, SIZE_BYTES)
                await read(billing, 5)

            def figures() -> str:
                return exposition(repository_metrics(one.status()))

            behind = 'holdfast_repository_subscriber_lag_messages{stream="bank/#",subscriber="billing"} 15\n'
            stored = 'holdfast_repository_stored_messages{stream="bank/#"} 20\n'
            await until(lambda: behind in figures() and stored in figures(), "billing is 15 behind of 20")
            return figures()

    text = holdfast.run(story())
    assert 'holdfast_repository_damaged_messages{stream="bank/#"} 0\n' in text
    assert "# TYPE holdfast_repository_commits_total counter\n" in text
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r'[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [0-9.e+]+', line), line


def test_labels_are_quoted():
    text = exposition([Metric("a", "gauge", "What.", (({"name": 'x"\\\n'}, 1.5),)), Metric("b", "gauge", "No.", ())])
    assert text == '# HELP a What.\n# TYPE a gauge\na{name="x\\"\\\\\\n"} 1.5\n'
