"""What reliable topics promise, checked from outside: by what applications saw and what is in the stores at the end.

| fault | promise that was broken |
| --- | --- |
| lost | what was acknowledged to its publisher as synced is stored at every repository of the bundle |
| copies | what was acknowledged as stored by so many repositories had been stored by as many |
| twice | a message is stored once at each |
| gap | a publisher's messages are stored without gaps, but for places that were given up |
| order | they are stored in their publisher's order |
| unreleased | a durable subscriber gets everything that is stored and that it wants |
| repeated | and each message once |
| disorder | and each publisher's messages in their order, what a life knew of an earlier one before its own |
| created | and nothing else |
| unstable | and nothing before the repository that it has it from has stored it |
| remembered | no repository knows a subscription that was ended and did not begin again |
| ahead | no repository believes that a subscriber has what it does not have |
| again | nor is it sent, when it comes back, what any of them knew it to have |
| behind | and in the end none believes less than another one knows (`agreeing`) |
| hasty | retention takes nothing that is neither old enough nor too much (`retained`) |
| kept | and in the end nothing is left that it may take |
| unanswered, miscounted | and what is promised to applications that acknowledge each message (`answered`) |
| gapped | a subscriber is told of nothing as forgotten, or damaged, that is not, or that it has had |
"""

from collections import defaultdict
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from holdfast.model.reliable import Entry, Level
from holdfast.model.topics import matches
from holdfast.protocols.narada.events import life_of, number_of
from holdfast.simulation.reliable.agreeing import behind
from holdfast.simulation.reliable.answered import check_answers
from holdfast.simulation.reliable.history import Identity, ReleasedMessage, ReliableHistory, identities
from holdfast.simulation.reliable.manual_hosts import ManualHost
from holdfast.simulation.reliable.retained import check_retention

if TYPE_CHECKING:
    from holdfast.simulation.reliable.hosts import SubscriberHost
    from holdfast.simulation.reliable.repository_hosts import RepositoryHost
    from holdfast.simulation.reliable.world import ReliableWorld

Fault = Literal[
    "lost",
    "copies",
    "twice",
    "gap",
    "order",
    "unreleased",
    "repeated",
    "disorder",
    "created",
    "unstable",
    "remembered",
    "ahead",
    "again",
    "behind",
    "hasty",
    "kept",
    "gapped",
    "unanswered",
    "miscounted",
]
EXAMPLES_MAX = 5
EVERYTHING = 1 << 60


class Judgement(Struct):
    """How often each promise was broken, and the first few cases."""

    faults: dict[Fault, int]
    examples: list[str]
    releases: int = 0
    stored: int = 0

    @property
    def ok(self) -> bool:
        return not self.faults

    def add(self, fault: Fault, sentence: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(f"{fault}: {sentence}")

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {fault}" for fault, count in self.faults.items())
        return f"{counts or 'nothing broken'}. " + " ".join(self.examples)


def judge(world: "ReliableWorld") -> Judgement:
    """Judge a run that has come to rest."""
    judgement = Judgement({}, [])
    members = [host for host in world.repositories.values() if host.up and _state(host, world.stream) != "left"]
    contents = {host.name: _contents(host, world.stream) for host in members}
    # What was ruined is nowhere any more, or came back late: readers are told of a gap.
    forgotten = world.history.forgotten() | world.history.ruined
    for host in members:
        # What retention took elsewhere, and was given up here for that, may come late with somebody who was away.
        given = world.history.given_up | (forgotten & _given_up_at(host, world.stream))
        _check_store(judgement, host.name, contents[host.name], given, forgotten)
        judgement.stored += sum(entry.count for entry in contents[host.name])
    forgetful = any(host.config.level is not Level.FSYNCED and host.lives > 1 for host in world.repositories.values())
    if not forgetful:
        _check_acknowledged(judgement, world.history, contents, forgotten)
    stored = {identity: topic for entries in contents.values() for identity, topic in _topics(entries)}
    retained = any(host.retention is not None for host in members)
    if retained or world.history.ruined:
        # Whatever was ever stored is for whoever subscribed before it was published.
        ever = set().union(*world.history.stores.values())
        stored = {identity: world.history.publications[identity].topic for identity in ever}
    for subscriber in world.subscribers.values():
        releases = world.history.releases[subscriber.name]
        judgement.releases += len(releases)
        _check_releases(judgement, world.history, subscriber, releases)
        if isinstance(subscriber, ManualHost):
            wanted = _wanted(world.history, subscriber, stored, retained)
            check_answers(judgement.add, world.history, subscriber, wanted, not forgetful)
        if subscriber.up and subscriber.machine.state != "refused":
            _check_complete(judgement, world.history, subscriber, releases, stored, retained)
            if not forgetful:
                for host in members:
                    _check_sync(judgement, host, subscriber, world.history, contents[host.name], retained)
        _check_ruined(judgement, world.history, subscriber.name)
    _check_forgotten(judgement, world, members)
    for sentence in behind(members, world.stream, world.history.given_up):
        judgement.add("behind", sentence)
    if retained:
        check_retention(judgement.add, world, members, forgotten)
    return judgement


# ------------------------------------------------------------------------------------------------------------- stores


def _state(host: "RepositoryHost", stream: str) -> str:
    return host.machine.streams[stream].stream_state.phase


def _contents(host: "RepositoryHost", stream: str) -> list[Entry]:
    return host.store.read(stream, 1, EVERYTHING, EVERYTHING)


def _given_up_at(host: "RepositoryHost", stream: str) -> set[Identity]:
    return {
        (publisher, life, number)
        for (publisher, life), chain in host.machine.streams[stream].stream_state.chains.items()
        for first, last in chain.given
        for number in range(first, last + 1)
    }


def _topics(entries: list[Entry]) -> list[tuple[Identity, str]]:
    return [(identity, entry.batch.topic) for entry in entries for identity in identities(entry)]


def _check_store(
    judgement: Judgement, name: str, entries: list[Entry], given: set[Identity], forgotten: set[Identity]
) -> None:
    lives: dict[tuple[str, int], list[int]] = defaultdict(list)
    for entry in entries:
        for publisher, life, number in identities(entry):
            lives[publisher, life].append(number)
    for (publisher, life), numbers in lives.items():
        who = f"{name} has of {publisher} in its life {life}"
        if len(set(numbers)) < len(numbers):
            judgement.add("twice", f"{who} {numbers}.")
        missing = set(range(1, max(numbers) + 1)) - set(numbers)
        if any((publisher, life, number) not in given | forgotten for number in missing):
            judgement.add("gap", f"{who} {numbers}, without {sorted(missing)}.")
        on_time = [number for number in numbers if (publisher, life, number) not in given]
        if on_time != sorted(on_time):
            judgement.add("order", f"{who} {numbers}.")


def _check_acknowledged(
    judgement: Judgement, history: ReliableHistory, contents: dict[str, list[Entry]], forgotten: set[Identity]
) -> None:
    reached: dict[tuple[str, int], int] = {}
    for ack in history.acknowledgements:
        # What was forgotten before another repository had it will not get there.
        excused = history.excused | forgotten
        short = [number for number in ack.short if (ack.publisher, ack.life, number) not in excused]
        if short:
            who = f"{ack.publisher} in its life {ack.life}"
            judgement.add("copies", f"{who} was told that {ack.copies} repositories have {short}.")
        reached[ack.publisher, ack.life] = max(reached.get((ack.publisher, ack.life), 0), ack.number)
    for name, entries in contents.items():
        there = history.excused | forgotten | {identity for entry in entries for identity in identities(entry)}
        for (publisher, life), upto in reached.items():
            lost = [number for number in range(1, upto + 1) if (publisher, life, number) not in there]
            if lost:
                who = f"{publisher} in its life {life}"
                judgement.add("lost", f"{name} lacks {lost} of {who}, which were acknowledged.")


def _check_forgotten(judgement: Judgement, world: "ReliableWorld", members: list["RepositoryHost"]) -> None:
    over = {name for name, _ in world.history.ends if not world.subscribers[name].up}
    for host in members:
        for name in sorted(over & host.machine.streams[world.stream].dissemination.subscriptions.keys()):
            judgement.add("remembered", f"{host.name} knows the subscription {name}, which was ended.")


# -------------------------------------------------------------------------------------------------------- subscribers


def _check_releases(
    judgement: Judgement, history: ReliableHistory, subscriber: "SubscriberHost", releases: list[ReleasedMessage]
) -> None:
    name, remembers, manual = subscriber.name, subscriber.config.remember, isinstance(subscriber, ManualHost)
    seen: dict[int, set[Identity]] = defaultdict(set)
    highest: dict[tuple[int, str, int], int] = {}
    gaps = history.gapped(name)
    known = history.had.get(name, set()) - gaps
    for one in releases:
        if one.life == subscriber.lives and one.identity in known:
            judgement.add("again", f"{name} came back, and {one.repository} sent it {one.identity}, which it had.")
        publication = history.publications.get(one.identity)
        if publication is None or (publication.topic, publication.payload) != (one.topic, one.payload):
            judgement.add("created", f"{name} got {one.identity} with {one.payload!r} on {one.topic}.")
        if not one.stable:
            judgement.add("unstable", f"{name} got {one.identity} before {one.repository} had stored it.")
        if manual:
            continue  # What comes again, and when, is for another judge.
        own_life = 0 if remembers else one.life
        if one.identity in seen[own_life]:
            judgement.add("repeated", f"{name} got {one.identity} again, from {one.repository}, at {one.time_s:.3f} s.")
        seen[own_life].add(one.identity)
        # What a subscriber without memory gets again after a crash comes whenever a repository believes it missing.
        again = not remembers and any(one.identity in earlier for life, earlier in seen.items() if life < own_life)
        if one.identity not in gaps and not again:
            _check_order(judgement, history, name, own_life, one.identity, highest)


def _check_order(
    judgement: Judgement,
    history: ReliableHistory,
    name: str,
    own_life: int,
    identity: Identity,
    highest: dict[tuple[int, str, int], int],
) -> None:
    publisher, life, number = identity
    before = highest.get((own_life, publisher, life), 0)
    if number < before:
        judgement.add("disorder", f"{name} got {identity} after {before}.")
    highest[own_life, publisher, life] = max(before, number)
    for (other_life, other, later), _ in list(highest.items()):
        if (other_life, other) != (own_life, publisher) or life >= later:
            continue
        after = history.after.get((publisher, later), ())
        if any(life_of(last) == life and number <= number_of(last) for last in after):
            judgement.add("disorder", f"{name} got {identity} after the life {later}, which knew of it.")


def _check_complete(
    judgement: Judgement,
    history: ReliableHistory,
    subscriber: "SubscriberHost",
    releases: list[ReleasedMessage],
    stored: dict[Identity, str],
    retained: bool,
) -> None:
    if subscriber.config.where:
        return
    wanted = _wanted(history, subscriber, stored, retained)
    missing = wanted - {one.identity for one in releases}
    if retained or history.ruined:
        missing -= history.gapped(subscriber.name)
    if missing:
        judgement.add("unreleased", f"{subscriber.name} did not get {sorted(missing)[:5]}.")


def _wanted(
    history: ReliableHistory, subscriber: "SubscriberHost", stored: dict[Identity, str], retained: bool
) -> set[Identity]:
    """What of what is stored a subscriber is to get."""
    pattern, since_s = subscriber.machine.pattern, 0.0
    if subscriber.config.start != "start" or retained:
        # Wherever it began, what was published after that is for it.
        since_s = history.beginning_s(subscriber.name, subscriber.config.anew)
    return {
        identity
        for identity, topic in stored.items()
        if matches(pattern, topic) and history.publications[identity].time_s >= since_s
    }


def _check_ruined(judgement: Judgement, history: ReliableHistory, name: str) -> None:
    """A gap for something damaged is told of nothing else."""
    told = history.damage_told[name] - history.ruined
    if told:
        judgement.add("gapped", f"{name} was told that {min(told)} is damaged, and it is not.")


def _check_sync(
    judgement: Judgement,
    host: "RepositoryHost",
    subscriber: "SubscriberHost",
    history: ReliableHistory,
    entries: list[Entry],
    retained: bool,
) -> None:
    [managed] = host.machine.streams.values()
    known = managed.dissemination.subscriptions.get(subscriber.name)
    if known is None or subscriber.config.start != "start" or subscriber.config.where:
        return
    got, pattern = {one.identity for one in history.releases[subscriber.name]}, subscriber.machine.pattern
    got |= {identity for told in history.gaps_told[subscriber.name] for identity in told.identities}
    got |= history.gapped(subscriber.name) & history.ruined
    if retained:
        # It began with what was kept where it began: what was published before is not for it, whoever has it.
        since_s = history.beginning_s(subscriber.name, anew=False)
        got |= {identity for identity, one in history.publications.items() if one.time_s < since_s}
    for entry in entries:
        if entry.last <= known.sync and matches(pattern, entry.batch.topic):
            missing = [identity for identity in identities(entry) if identity not in got]
            if missing:
                judgement.add("ahead", f"{host.name} believes that {subscriber.name} has {missing[0]}.")
