"""What a delta broker has on its disk: how often it has lived, the links around it, and the clients at their ends.

That is all that recovery needs (4.6; the paper assumes that the map can be restored). Filters and messages come back
from the neighbours.
"""

import msgspec

from holdfast.model.delta_messages import Place
from holdfast.protocols.node import Effects, Persist

LIFE_KEY = "delta life"
MAP_KEY = "delta map"
CLIENT_KEY = "delta client "
NEAR_KEY = "delta near "
SECOND_BITS = 30
"""An incarnation counts nanoseconds; seconds are enough for lives, which every message carries."""

_encode = msgspec.msgpack.Encoder().encode
_places = msgspec.msgpack.Decoder(list[Place])


class Journal:
    """The pairs on one broker's disk."""

    def __init__(self) -> None:
        self.life = 0
        self.places: list[Place] | None = None
        self.clients: dict[str, int] = {}
        """Its own, each with the life that it had when it joined."""
        self.near: dict[str, str] = {}
        """Those of brokers nearby, each with its home."""

    def restore(self, pairs: dict[str, bytes]) -> None:
        self.life = int(pairs.get(LIFE_KEY, b"0"))
        if MAP_KEY in pairs:
            self.places = _places.decode(pairs[MAP_KEY])
        for key, value in pairs.items():
            if key.startswith(CLIENT_KEY):
                self.clients[key.removeprefix(CLIENT_KEY)] = int(value)
            elif key.startswith(NEAR_KEY):
                self.near[key.removeprefix(NEAR_KEY)] = value.decode()

    def begin_life(self, incarnation: int) -> Effects:
        """Begin a life that is later than all others, also if these are forgotten.

        1. A broker's disk is gone. 2. It would begin its first life again, and number from 1. 3. Its neighbours would
        take everything that it passes on for repeats.
        """
        self.life = self.life + 1 if self.life else incarnation >> SECOND_BITS or incarnation
        return [Persist(LIFE_KEY, str(self.life).encode())]

    def write_map(self, places: list[Place]) -> Effects:
        if places == self.places:
            return []
        self.places = places
        return [Persist(MAP_KEY, _encode(places))]

    def write_client(self, client: str, life: int) -> Effects:
        if self.clients.get(client) == life:
            return []
        self.clients[client] = life
        return [Persist(CLIENT_KEY + client, str(life).encode())]

    def write_near(self, client: str, home: str) -> Effects:
        if self.near.get(client) == home:
            return []
        self.near[client] = home
        return [Persist(NEAR_KEY + client, home.encode())]

    def erase_client(self, client: str) -> Effects:
        found: Effects = []
        if self.clients.pop(client, None) is not None:
            found.append(Persist(CLIENT_KEY + client, b""))
        if self.near.pop(client, None) is not None:
            found.append(Persist(NEAR_KEY + client, b""))
        return found
