"""Lost, duplicated and created: is what was delivered what was published and wanted, once?"""

from holdfast.model.topics import matches
from holdfast.model.trace import Event
from holdfast.model.verdicts import differs, missing, name_of, repeated, unfounded, unwanted
from holdfast.simulation.checkers.history import ClientHistory, Identity, Publication, RunHistory, SubscriptionHistory
from holdfast.simulation.checkers.verdict import VerdictTally

Owed = list[tuple[ClientHistory, list[SubscriptionHistory]]]


def judge_deliveries(run: RunHistory, tally: VerdictTally) -> None:
    """Count what is lost, duplicated and created, and note in each client what has arrived as it should."""
    delivered: dict[str, set[Identity]] = {}
    for client in run.clients.values():
        delivered[client.name] = _judge_client(client, run, tally)
    _judge_losses(run, delivered, tally)


def _judge_client(client: ClientHistory, run: RunHistory, tally: VerdictTally) -> set[Identity]:
    delivered: set[Identity] = set()
    wanted: dict[str, list[SubscriptionHistory]] = {}
    for position, event in enumerate(client.rows):
        if event.event != "deliver":
            continue
        tally.deliveries += 1
        identity = (event.publisher, event.seq)
        if identity in delivered:
            tally.add("duplicated", repeated, event.node, name_of(event))
            continue
        delivered.add(identity)
        if event.topic not in wanted:
            wanted[event.topic] = [one for one in client.subscriptions if matches(one.pattern, event.topic)]
        publication = run.publications.get(identity)
        if reason := _created(event, publication, wanted[event.topic], position):
            tally.add("created", unfounded, event.node, name_of(event), reason)
        elif publication is not None:
            client.arrived.append(publication)
    return delivered


def _created(
    event: Event, publication: Publication | None, subscriptions: list[SubscriptionHistory], position: int
) -> str:
    """Why this delivery should not have been; empty if all is well."""
    reason = differs(event, publication.event if publication is not None else None)
    if reason or publication is None:
        return reason
    matching = [one for one in subscriptions if one.lets_through(publication.attributes)]
    if not matching:
        return unwanted(event.topic, ended=False)
    if all(one.ended_at is not None and one.ended_at < position for one in matching):
        return unwanted(event.topic, ended=True)
    return ""


def _judge_losses(run: RunHistory, delivered: dict[str, set[Identity]], tally: VerdictTally) -> None:
    owed: dict[str, Owed] = {}
    for identity, publication in run.publications.items():
        if publication.topic not in owed:
            owed[publication.topic] = lasting_subscriptions(run, publication.topic)
        for client, subscriptions in owed[publication.topic]:
            if identity in delivered[client.name]:
                continue
            for one in subscriptions:
                if confirmed_before(one, publication) and one.lets_through(publication.attributes):
                    tally.add("lost", _missing, client, publication, one)
                    break


def lasting_subscriptions(run: RunHistory, topic: str) -> Owed:
    """By client, the subscriptions to a topic that were confirmed at some time and never taken back."""
    found: Owed = []
    for client in run.clients.values():
        lasting = [one for one in client.subscriptions if one.ended_at is None and matches(one.pattern, topic)]
        if lasting:
            found.append((client, lasting))
    return found


def confirmed_before(subscription: SubscriptionHistory, publication: Publication) -> bool:
    confirmed, published = subscription.confirmed, publication.event
    if confirmed is None or confirmed.time > published.time:
        return False
    if confirmed.time < published.time:
        return True
    return confirmed.node == published.node and confirmed.index < published.index


# ------------------------------------------------------------------------------------------------------- sentences


def _missing(client: ClientHistory, publication: Publication, subscription: SubscriptionHistory) -> str:
    wanted = subscription.pattern
    if subscription.filter is not None:
        wanted += f" where {subscription.filter.text}"
    return missing(client.name, str(publication), publication.topic, wanted)
