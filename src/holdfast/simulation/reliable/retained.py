"""Whether retention took what it may take, and nothing else: by ages and weights, and by what readers were told."""

from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from holdfast.model.reliable import Retention
from holdfast.simulation.reliable.history import GapTold, Identity, ReliableHistory

if TYPE_CHECKING:
    from holdfast.simulation.reliable.hosts import SubscriberHost
    from holdfast.simulation.reliable.repository_hosts import RepositoryHost
    from holdfast.simulation.reliable.world import ReliableWorld

Add = Callable[[Literal["hasty", "kept", "gapped"], str], None]
LATE_S = 1.5
"""So much later than it may go everything is gone: rounds, acknowledgements and commits take their time."""


def check_retention(
    add: Add, world: "ReliableWorld", members: list["RepositoryHost"], forgotten: set[Identity]
) -> None:
    for discard in world.history.discards:
        retention = world.repositories[discard.repository].retention or Retention()
        old = retention.keep_s is not None and discard.age_s > retention.keep_s
        heavy = retention.keep_bytes is not None and discard.weight_bytes > retention.keep_bytes
        if not old and not heavy:
            add("hasty", f"{discard.repository} forgot {discard.identities[0]} after {discard.age_s:.3f} s.")
    # A repository that cannot translate how far somebody is keeps what it may have to send: after a gap that was given
    # up, or if that one has begun again without memory, it learns it when it steers it.
    forgetful = any(one.lives > 1 and not one.config.remember for one in world.subscribers.values())
    if not forgetful and not world.history.given_up:
        for host in members:
            _check_kept(add, world, host)
    for subscriber in world.subscribers.values():
        for told in world.history.gaps_told[subscriber.name]:
            _check_gap(add, world.history, subscriber, told, forgotten)


def _check_kept(add: Add, world: "ReliableWorld", host: "RepositoryHost") -> None:
    """Everybody has read everything: what is old, or too much, is gone."""
    retention, now = host.retention or Retention(), world.kernel.now
    entries = host.store.read(world.stream, 1, 1 << 60, 1 << 60)
    ages_s = [now - entry.time_ns / 1e9 for entry in entries]
    # What filled a place late is younger than what lies behind it, and that goes no sooner than it does.
    due_s = list(accumulate(ages_s, min))
    if retention.keep_s is not None and any(age_s > retention.keep_s + LATE_S for age_s in due_s):
        add("kept", f"{host.name} has something that it stored {max(due_s):.3f} s ago.")
    weight = sum(entry.batch.cost_bytes for entry in entries)
    if retention.keep_bytes is not None and weight > retention.keep_bytes and min(ages_s) > LATE_S:
        add("kept", f"{host.name} has {weight} bytes.")


def _check_gap(
    add: Add, history: ReliableHistory, subscriber: "SubscriberHost", told: GapTold, forgotten: set[Identity]
) -> None:
    name = subscriber.name
    for identity in told.identities:
        if identity not in forgotten | history.given_up:
            add("gapped", f"{name} was told that {identity} is forgotten, and nobody forgot it.")
    before = history.releases[name][: told.releases]
    had = {one.identity for one in before if subscriber.config.remember or one.life == told.life}
    if had.intersection(told.identities):
        add("gapped", f"{name} was told that {min(had.intersection(told.identities))} is forgotten, and has had it.")
