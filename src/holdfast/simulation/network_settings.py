"""How a network is to behave, as scenarios say it: latencies, bandwidth, and what is particular about single links."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.simulation.latencies import Latency, Uniform

Factor = Annotated[float, Meta(gt=0, le=1e6)]
BytesPerS = Annotated[float, Meta(gt=0)]


class LinkSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What is particular about the link between two hosts. `back_factor` is that of the second towards the first."""

    between: tuple[str, str]
    latency: Latency | None = None
    factor: Factor = 1.0
    back_factor: Factor | None = None
    bytes_per_s: BytesPerS | None = None


class NetworkConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How frames travel, unless a link says otherwise."""

    latency: Latency = Uniform(1.0, 5.0)
    client_latency: Latency = Uniform(0.2, 1.0)
    speeds: tuple[Factor, ...] = ()
    """Each direction of each link draws one of these factors for its latency, for good."""
    latency_ms_max: Annotated[float, Meta(gt=0, le=3_600_000)] | None = None
    """Whatever is drawn, and whatever the factor: no frame takes longer, unless a link is slowed down by a command."""
    bytes_per_s: BytesPerS | None = None
    codec_check: bool = False
    """Send every frame through the wire codec and demand that the same frame comes out."""
    connect_timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 2.0
    links: tuple[LinkSettings, ...] = ()
