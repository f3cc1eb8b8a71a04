"""SESDAD: a tree of sites, each of several brokers that stand in for each other (report 004, Miguel Pires).

The problem: a broker that is lost parts a tree. State machine replication of each broker costs an agreement for every
message, and three times the work. The report's idea: a publication needs no place in one order of everything, it needs
to be held by one more broker than may be lost, and numbers by which receivers know what they lack.

    site          n = 2f + 1 brokers (1, 3 or 5), each with a session with every other one, with every broker of the
                  sites next to it, and with every client of the site. It loses nothing while f of them are lost.
    publication   client or site --Offer, Forward--> a broker that is drawn (the choice is recorded by the sender)
                  --Replicate--> the others, --Replicated--> back; after f answers it goes out to subscribers and sites.
    subscription  client --Subscribe--> a broker --SiteRequest--> the designated broker: Propose, Promised, Establish;
                  with filtering, Announce to the next sites; SiteAnswer and SubscribeAck when everybody knows.

    A broker      JOINING --told by f + 1 others with a memory, or none has any--> SERVING --stop--> LEAVING
    A unit        HELD BACK --all before it came, f others hold it, the state is confirmed--> PROCESSED --all
                  destinations have it--> FORGOTTEN

Parts and what each owns:

    sites           the site, those next to it, their brokers                            (from the configuration)
    streams         units that came, who else holds them, hold-back                      (report, sections 4 and 5)
    sequence_maps   numbers of each way out, and back                                    (sections 4.1 and 6.2)
    routes          who wants what, from which number on                                 (section 3)
    traffic         processing: streams in, lanes out; who sends                         (section 5)
    designation     the designated broker, its two rounds, and its successor             (section 5)
    desk            requests at the designated broker, and which clients are there
    announcements   what other sites are told with filtering                             (section 3.2)
    retransmission  when to ask for what is missing                                      (section 6)
    state_transfer  what a broker that returns is told, and what it makes of it
    peers           who is there, and speaking to them
    publications    being chosen, multicast, acknowledgements                            (section 5)
    missing         requests and notifications                                           (section 6)
    government      requests to the designated broker; following it, or being it
    receipts        questions of publishers whether everybody has a message
    checks          what a broker of the site may say
    broker          sessions, and the table of messages
    agreement, ordered_publications   the comparator: a majority's agreement on the place of every message (section 8)
    holdback, client   the other end: publishers and subscribers                         (sections 4.1 and 6)

Invariants:
 1. What a lane carries, and under which number, is a function of its stream and of the states in force: two brokers of
    a site that have processed the same have the same lanes.
 2. Nobody processes a unit for which a state counts that it does not have (`streams`).
 3. Nobody processes a unit that fewer than f + 1 brokers of the site hold.
 4. A sender forgets a unit when every broker of the receiving site that is there has it, and more than f are.
"""

from typing import TYPE_CHECKING

from holdfast.protocols.on_demand import on_demand

if TYPE_CHECKING:
    from holdfast.protocols.sesdad.broker import SesdadBroker
    from holdfast.protocols.sesdad.client import SiteClient
else:
    __getattr__ = on_demand(__name__, {"SesdadBroker": "broker", "SiteClient": "client"})

__all__ = ["SesdadBroker", "SiteClient"]
