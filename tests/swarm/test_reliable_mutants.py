"""Every rule of reliable topics, broken on purpose, is caught by the judges."""

from collections.abc import Callable

import pytest

from holdfast.model.reliable import Entry
from holdfast.protocols.narada import (
    backlog,
    chains,
    damaged_messages,
    dissemination,
    ended_subscriptions,
    fingerprints,
    gossip,
    handouts,
    intake,
    manual_subscriber,
    message_buffer,
    position_reports,
    publisher,
    repository,
    retention,
    stream_state,
    topics,
)
from holdfast.protocols.narada import released_messages as memory
from holdfast.protocols.narada import subscriber as subscribers
from holdfast.protocols.narada.chains import Chain
from holdfast.protocols.narada.config import SubscriberConfig
from holdfast.protocols.narada.consumed_position import NOTHING
from holdfast.protocols.narada.empty_rows import pass_empty_row
from holdfast.protocols.narada.events import DAMAGED, FORGOTTEN, Row
from holdfast.protocols.narada.participant import Release
from holdfast.protocols.narada.stream_state import RepositoryStream
from holdfast.protocols.trackers import RangeTracker
from holdfast.simulation.reliable import hosts, repository_hosts
from holdfast.simulation.reliable.author import ReliableClass
from holdfast.simulation.reliable.swarm import run_reliable
from holdfast.storage.stores import expiry
from tests.support.reliable import (
    a_subscription_that_began_while_another_was_away,
    an_earlier_life_that_was_missed,
    numbers,
    numbers_that_were_told_and_lost,
    stored,
)

RUNS_MAX = 30
Patch = pytest.MonkeyPatch


def _any_message_will_do(patch: Patch) -> None:
    for module in (fingerprints, message_buffer, publisher, stream_state):
        patch.setattr(module, "fingerprint", lambda _: 0)


def _acknowledged_before_it_is_stored(patch: Patch) -> None:
    take = RepositoryStream.take
    patch.setattr(repository_hosts, "COMMIT_S", 0.2)

    def hasty(self, chain, number, batch, now, crc=None):
        done = take(self, chain, number, batch, now, crc)
        if done:
            chain.settled.add(number, number + batch.count - 1)
            chain.ack_due = True
        return done

    patch.setattr(RepositoryStream, "take", hasty)


def _announced_before_it_is_stored(patch: Patch) -> None:
    commit = repository.Repository._commit
    patch.setattr(repository_hosts, "COMMIT_S", 0.1)

    def hasty(self, now):
        effects = commit(self, now)
        for managed in self.streams.values() if effects else ():
            effects += managed.dissemination.announce(
                [stream_state.notice(entry) for entry in managed.stream_state.committing]
            )
        return effects

    patch.setattr(repository.Repository, "_commit", hasty)


def _no_places(patch: Patch) -> None:
    def careless(self, chain, number, batch, now, crc=None):
        for first, last in chain.taken.new_part(number, number + batch.count - 1):
            place = chains.Place(first, self.next, last - first + 1)
            self.next += place.count
            chain.top = max(chain.top, last)
            self._stage_places(chain, [place], number, batch, now, crc)
            chain.taken.add(first, last)
            self._dirty_chains[chain.publisher, chain.life] = None
        return True

    patch.setattr(RepositoryStream, "take", careless)


def _a_repository_that_forgets_what_it_has(patch: Patch) -> None:
    restored = Chain.restored.__func__  # type: ignore[attr-defined]

    def forgetful(cls, publisher, life, value):
        chain = restored(cls, publisher, life, value)
        if chain.taken.prefix > 1:
            chain.taken = RangeTracker(ranges_max=4096, start=chain.taken.prefix - 1)
            chain.stored = RangeTracker(ranges_max=4096, start=chain.taken.prefix)
            chain.settled = RangeTracker(ranges_max=4096, start=chain.taken.prefix)
        return chain

    patch.setattr(Chain, "restored", classmethod(forgetful))


def _a_subscriber_that_forgets_at_a_failover(patch: Patch) -> None:
    recover = subscribers.Subscriber._recover

    def forgetful(self, now):
        self.released = memory.ReleasedMessages()
        return recover(self, now)

    patch.setattr(subscribers.Subscriber, "_recover", forgetful)


def _released_in_the_order_of_arrival(patch: Patch) -> None:
    def any_row(self):
        return self._rows[self._firsts[0]] if self._firsts else None

    patch.setattr(backlog.Backlog, "row", any_row)


def _released_before_it_is_stable(patch: Patch) -> None:
    heard = subscribers.Subscriber.heard

    def hasty(self, batch, now):
        effects = heard(self, batch, now)
        if self.state == "steered" and not topics.is_control(batch.topic):
            entry = Entry(1, (1 << 32) | 1, batch, 0)
            effects.append(Release(self.config.stream, self._steering.repository, entry))
            self.unconsumed.add(entry)
        return effects

    patch.setattr(subscribers.Subscriber, "heard", hasty)


def _acknowledgements_taken_as_they_are(patch: Patch) -> None:
    def untranslated(self, one, repository, ranges, table):
        for first, last in ranges:
            self._acknowledge(one, first, min(last, self.stream_state.end))

    patch.setattr(dissemination.Dissemination, "_translate", untranslated)


def _nothing_is_fetched_from_others(patch: Patch) -> None:
    patch.setattr(gossip.BundleGossip, "_missing", lambda *_: [])


def _nothing_is_asked_for(patch: Patch) -> None:
    patch.setattr(intake.Intake, "naks", lambda _: [])
    patch.setattr(gossip.BundleGossip, "_missing", lambda *_: [])


def _every_life_is_the_same(patch: Patch) -> None:
    patch.setattr(hosts.PublisherHost, "make", lambda self: publisher.Publisher(self.config, 1))


def _numbers_are_given_again(patch: Patch) -> None:
    restore = RepositoryStream._restore_head

    def careless(self, head, level, now_era):
        head.reserved = 0
        restore(self, head, level, now_era)

    patch.setattr(RepositoryStream, "_restore_head", careless)


def _leaves_at_once(patch: Patch) -> None:
    patch.setattr(gossip.BundleGossip, "may_leave", lambda *_: True)


def _what_comes_is_not_held_back(patch: Patch) -> None:
    def at_once(self, now):
        self.stream_state.phase = "serving"
        return True

    patch.setattr(gossip.BundleGossip, "learn", at_once)
    patch.setattr(RepositoryStream, "_expect", lambda *_: True)


def _gaps_are_skipped_by_themselves(patch: Patch) -> None:
    set_aside = RepositoryStream.set_aside

    def careless(self, chain, number_last):
        first = chain.top + 1
        set_aside(self, chain, number_last)
        self.give_up(chain, first, number_last)

    patch.setattr(RepositoryStream, "set_aside", careless)


def _memory_after_the_fact(patch: Patch) -> None:
    patch.setattr(subscribers.Subscriber, "_go_on", _go_on_without_memory)


def _go_on_without_memory(self, now):
    config = self.config
    try:
        object.__setattr__(self, "config", SubscriberConfig(config.name, config.stream, config.pattern))
        return _go_on(self, now)
    finally:
        self.config = config


def _whoever_is_there_has_a_copy(patch: Patch) -> None:
    patch.setattr(Chain, "covered", lambda self, _: self.settled.prefix)


def _a_new_disk_goes_on_in_the_old_era(patch: Patch) -> None:
    def make(self):
        return repository.Repository(self.config, self.streams, 1, dict(self.store.items()))

    patch.setattr(repository_hosts.RepositoryHost, "make", make)


def _ends_of_subscriptions_are_said_once(patch: Patch) -> None:
    add = ended_subscriptions.EndedSubscriptions.add

    def quiet(self, *end):
        news = add(self, *end)
        self.digest = 0
        return news

    patch.setattr(ended_subscriptions.EndedSubscriptions, "add", quiet)


def _damage_is_shrugged_off(patch: Patch) -> None:
    patch.setattr(damaged_messages.DamagedMessages, "found", lambda *_: [])


def _what_is_lost_is_kept_quiet(patch: Patch) -> None:
    def quiet(stream, row, backlog, known):
        return [] if row.kind == DAMAGED else pass_empty_row(stream, row, backlog, known)

    patch.setattr(subscribers, "pass_empty_row", quiet)


def _what_is_damaged_counts_as_lost_and_so_does_what_lies_behind_it(patch: Patch) -> None:
    lost_rows = damaged_messages.DamagedMessages.lost_rows

    def more(self, first, last, entries):
        return [
            Row(row.first, row.count + 1, row.publisher, row.cat, row.kind)
            for row in lost_rows(self, first, last, entries)
        ]

    patch.setattr(damaged_messages.DamagedMessages, "lost_rows", more)


def _gaps_are_kept_quiet(patch: Patch) -> None:
    patch.setattr(memory.ReleasedMessages, "pass_over", lambda *_: [])


def _who_begins_live_skips_a_little(patch: Patch) -> None:
    everything = dissemination.Dissemination._everything

    def more(self):
        return tuple((publisher, cat + 3) for publisher, cat in everything(self))

    patch.setattr(dissemination.Dissemination, "_everything", more)


def _retention_asks_nobody(patch: Patch) -> None:
    patch.setattr(retention.StreamRetention, "limit", lambda self, _: self.stream_state.next)


def _what_is_forgotten_is_kept_quiet(patch: Patch) -> None:
    def quiet(stream, row, backlog, known):
        return [] if row.kind == FORGOTTEN else pass_empty_row(stream, row, backlog, known)

    patch.setattr(subscribers, "pass_empty_row", quiet)


def _everything_is_old(patch: Patch) -> None:
    def hasty(store, stream, keep, limit, now_ns, step_bytes):
        return expiry.expired(store, stream, keep, limit, now_ns + 10_000_000_000, step_bytes)

    patch.setattr(repository_hosts, "expired", hasty)


def _nothing_is_old(patch: Patch) -> None:
    patch.setattr(repository_hosts, "expired", lambda *_: None)


def _what_the_pairs_do_not_tell_of_is_not_looked_for(patch: Patch) -> None:
    patch.setattr(repository.Repository, "adopt", lambda *_: None)


_go_on = subscribers.Subscriber._go_on


def _nobody_tells_how_far_subscribers_are(patch: Patch) -> None:
    patch.setattr(position_reports.PositionReports, "tell", lambda *_, **__: [])


def _accounts_tell_nothing_of_what_is_above(patch: Patch) -> None:
    patch.setattr(manual_subscriber.ManualSubscriber, "_above", lambda _: ((), (), False))


def _what_is_out_counts_as_acknowledged(patch: Patch) -> None:
    patch.setattr(handouts.Handouts, "entries", lambda _: [])
    patch.setattr(handouts.Handouts, "lowest", lambda _, otherwise: otherwise)


def _what_is_given_back_holds_nobody_up(patch: Patch) -> None:
    def alone(self, identity, count, due_s):
        handout = self._handouts.get(identity)
        if handout is None or handout.count != count:
            return False
        handout.due_s, handout.lanes = due_s, frozenset()
        self._wait(handout)
        return True

    patch.setattr(handouts.Handouts, "nack", alone)


def _what_is_given_back_comes_again_at_once(patch: Patch) -> None:
    nack = handouts.Handouts.nack
    patch.setattr(handouts.Handouts, "nack", lambda self, identity, count, _: nack(self, identity, count, 0.0))


MUTANTS: list[tuple[Callable[[Patch], None], ReliableClass, set[str]]] = [
    (_any_message_will_do, "publisher", {"created"}),
    (_acknowledged_before_it_is_stored, "repository", {"lost", "copies"}),
    (_announced_before_it_is_stored, "lossy", {"unstable"}),
    (_no_places, "lossy", {"order", "disorder"}),
    (_a_repository_that_forgets_what_it_has, "repository", {"StoreError", "twice"}),
    (_a_subscriber_that_forgets_at_a_failover, "all-but-one", {"repeated"}),
    (_released_in_the_order_of_arrival, "lossy", {"disorder", "unreleased"}),
    (_released_before_it_is_stable, "lossy", {"unstable", "created"}),
    (_acknowledgements_taken_as_they_are, "all-but-one", {"ahead", "unreleased"}),
    (_nothing_is_fetched_from_others, "repository", {"NotDrained"}),
    (_nothing_is_asked_for, "lossy", {"NotDrained"}),
    (_every_life_is_the_same, "publisher", {"created", "lost", "NotDrained"}),
    (_leaves_at_once, "leave", {"lost"}),
    (_what_comes_is_not_held_back, "storm", {"disorder"}),
    (_gaps_are_skipped_by_themselves, "lossy", {"order", "gap", "disorder", "lost"}),
    (_memory_after_the_fact, "subscriber", {"repeated"}),
    (_whoever_is_there_has_a_copy, "join", {"copies"}),
    (_a_new_disk_goes_on_in_the_old_era, "disk", {"lost", "unreleased", "ahead", "NotDrained", "AssertionError"}),
    (_damage_is_shrugged_off, "flips", {"lost", "gap"}),
    (_what_is_lost_is_kept_quiet, "ruin", {"unreleased", "disorder", "ahead"}),
    (_what_is_damaged_counts_as_lost_and_so_does_what_lies_behind_it, "ruin", {"unreleased", "gapped"}),
    (_what_the_pairs_do_not_tell_of_is_not_looked_for, "damage", {"StoreError", "lost", "twice"}),
    (_retention_asks_nobody, "retention", {"unreleased", "NotDrained", "lost", "ahead"}),
    (_what_is_forgotten_is_kept_quiet, "retention", {"unreleased"}),
    (_everything_is_old, "retention", {"hasty"}),
    (_nothing_is_old, "retention", {"kept"}),
    (_gaps_are_kept_quiet, "given-up", {"disorder"}),
    (_ends_of_subscriptions_are_said_once, "forget", {"remembered"}),
    (_who_begins_live_skips_a_little, "positions", {"unreleased"}),
    (_accounts_tell_nothing_of_what_is_above, "acks", {"again"}),
    (_what_is_out_counts_as_acknowledged, "acks", {"unanswered", "ahead"}),
    (_what_is_given_back_holds_nobody_up, "acks", {"disorder"}),
    (_what_is_given_back_comes_again_at_once, "acks", {"disorder"}),
    (_nobody_tells_how_far_subscribers_are, "away", {"NotDrained", "again"}),
]


def test_earlier_lives_that_are_not_waited_for_are_caught(monkeypatch: pytest.MonkeyPatch):
    assert stored(an_earlier_life_that_was_missed(), "r2") == numbers(1, 6)
    monkeypatch.setattr(RepositoryStream, "_expect", lambda *_: True)
    assert stored(an_earlier_life_that_was_missed(), "r2") != numbers(1, 6)


def test_numbers_that_are_given_again_are_caught(monkeypatch: pytest.MonkeyPatch):
    # It takes a loss, a partition and a failover in this order: random runs come to that too seldom to rely on them.
    assert numbers_that_were_told_and_lost().check().ok
    _numbers_are_given_again(monkeypatch)
    assert numbers_that_were_told_and_lost().check().faults == {"unreleased": 1}


def test_a_repository_that_does_not_say_again_what_it_has_lost_is_caught(monkeypatch: pytest.MonkeyPatch):
    # What it says by itself must be lost, and nobody else may have the message: one schedule in five hundred.
    monkeypatch.setattr(gossip, "never_rows", lambda *_: [])
    assert run_reliable(196, "levels").what() == "NotDrained"


def test_a_harmed_store_that_goes_on_in_its_old_era_is_caught(monkeypatch: pytest.MonkeyPatch):
    # One schedule in a hundred and fifty leads to a reader that is misled by numbers which were given twice.
    assert run_reliable(135, "damage").ok
    monkeypatch.setattr(RepositoryStream, "begin_anew", lambda _: None)
    assert set(run_reliable(135, "damage").what().split(",")) == {"disorder", "unreleased", "ahead"}


def test_a_repository_that_does_not_note_what_readers_have_had_is_caught(monkeypatch: pytest.MonkeyPatch):
    # Whoever hears the reader itself knows it all the same: one schedule in twenty needs what another one noted.
    assert run_reliable(36, "away").ok
    monkeypatch.setattr(dissemination, "position_for_siblings", lambda *_: NOTHING)
    assert run_reliable(36, "away").what() == "again"


def test_a_reader_that_is_not_told_what_others_know_it_to_have_had_is_caught(monkeypatch: pytest.MonkeyPatch):
    # Most of what others know becomes the repository's sync: one schedule in sixty leaves something beside it.
    assert run_reliable(65, "away").ok
    rectify = dissemination.Dissemination._rectify

    def unmindful(self, one, position, cut=()):
        known, one.consumed = one.consumed, NOTHING
        effects = rectify(self, one, position, cut)
        one.consumed = known
        return effects

    monkeypatch.setattr(dissemination.Dissemination, "_rectify", unmindful)
    assert run_reliable(65, "away").what() == "again"


def test_a_repository_that_is_not_told_of_subscriptions_is_caught(monkeypatch: pytest.MonkeyPatch):
    assert a_subscription_that_began_while_another_was_away().forgettable("orders") == 1
    _nobody_tells_how_far_subscribers_are(monkeypatch)
    monkeypatch.setattr(retention.StreamRetention, "_siblings_limit", lambda self: self.stream_state.next)
    assert a_subscription_that_began_while_another_was_away().forgettable("orders") == 11


@pytest.mark.parametrize(("mutant", "failure", "faults"), MUTANTS, ids=lambda it: getattr(it, "__name__", ""))
def test_a_broken_rule_is_caught(
    monkeypatch: pytest.MonkeyPatch, mutant: Callable[[Patch], None], failure: ReliableClass, faults: set[str]
):
    mutant(monkeypatch)
    said = []
    for seed in range(1, RUNS_MAX + 1):
        outcome = run_reliable(seed, failure)
        if faults & set(outcome.what().split(",")):
            return
        said.append(outcome.what())
    pytest.fail(f"not caught in {RUNS_MAX} runs, which said {said}")
