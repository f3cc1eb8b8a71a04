"""Reliable topics: NaradaBrokering's reliable delivery as a layer above any broker protocol.

A *stream* is a declaration: the messages on its topics are stored by a *bundle* of repositories, exactly once, without
gaps and in each publisher's order, and every durable subscriber gets each of them once, also those that were published
while it was away. The participants are pure machines above ordinary client sessions; see `participant` for what their
driver owes them. What they say to each other (`events`) may be lost, repeated and reordered.

A publisher (`publisher`) numbers its messages (*catenation numbers*, the same everywhere), publishes each batch on
its topic as anybody would, and tells the bundle in tandem which number it has. A repository (`repository`) puts
messages and orders together, gives each message a *sequence number* of its own, stores it, and says so: to the
publisher, which may then forget it, to the subscribers that it steers, which may then release it, and to the other
repositories, which then know under which number it lies there, and whether they lack it. A subscriber (`subscriber`)
releases in the order of one repository and knows by identity what it has released, so that it may change to another
repository at any time. One whose application acknowledges each message is a `ManualSubscriber` (`manual_subscriber`).
"""

from typing import TYPE_CHECKING

from holdfast.protocols.on_demand import on_demand

if TYPE_CHECKING:
    from holdfast.protocols.narada.config import PublisherConfig, RepositoryConfig, SteeringConfig, SubscriberConfig
    from holdfast.protocols.narada.events import Registration, catenation, life_of, number_of
    from holdfast.protocols.narada.manual_subscriber import ManualSubscriber
    from holdfast.protocols.narada.participant import Participant
    from holdfast.protocols.narada.publisher import BufferFull, Publisher
    from holdfast.protocols.narada.repository import Repository
    from holdfast.protocols.narada.subscriber import Subscriber
    from holdfast.protocols.narada.subscription_removal import Forgetter
else:
    __getattr__ = on_demand(
        __name__,
        {
            "BufferFull": "publisher",
            "Forgetter": "subscription_removal",
            "ManualSubscriber": "manual_subscriber",
            "Participant": "participant",
            "Publisher": "publisher",
            "PublisherConfig": "config",
            "Registration": "events",
            "Repository": "repository",
            "RepositoryConfig": "config",
            "SteeringConfig": "config",
            "Subscriber": "subscriber",
            "SubscriberConfig": "config",
            "catenation": "events",
            "life_of": "events",
            "number_of": "events",
        },
    )

__all__ = [
    "BufferFull",
    "Forgetter",
    "ManualSubscriber",
    "Participant",
    "Publisher",
    "PublisherConfig",
    "Registration",
    "Repository",
    "RepositoryConfig",
    "SteeringConfig",
    "Subscriber",
    "SubscriberConfig",
    "catenation",
    "life_of",
    "number_of",
]
