"""On which topics the participants of a reliable topic speak to each other."""

ROOT = "~narada"
_QUOTED = str.maketrans({"%": "%25", "/": "%2F", "#": "%23", "+": "%2B"})


def is_control(topic: str) -> bool:
    """Whether participants speak to each other there. The topic is reserved, so no wildcard means it."""
    return topic.startswith(f"{ROOT}/")


def level(name: str) -> str:
    return name.translate(_QUOTED)


def bundle_topic(stream: str) -> str:
    """Where clients speak to every repository of the bundle."""
    return f"{ROOT}/{level(stream)}/bundle"


def gossip_topic(stream: str) -> str:
    """Where repositories speak to each other."""
    return f"{ROOT}/{level(stream)}/gossip"


def stable_topic(stream: str, repository: str) -> str:
    """Where a repository tells the subscribers that it steers what is stored."""
    return f"{ROOT}/{level(stream)}/stable/{level(repository)}"


def inbox_topic(stream: str, name: str) -> str:
    """Where one participant is spoken to."""
    return f"{ROOT}/{level(stream)}/to/{level(name)}"
