"""Members of public classes that are for the other parts of the client, and for no application.

Receipts, subscriptions and reliable topics ask their client for things that an application has no use for. A class
names them in `_internal`; `help()` and `dir()` of the class leave them out.
"""

from abc import ABCMeta
from inspect import Signature


class PublicMembers(ABCMeta):
    """The metaclass of classes whose `help()` shows what is for applications.

    No application makes their objects by itself, so `help()` shows no arguments of theirs.
    """

    @property
    def __signature__(cls) -> Signature:
        return Signature()

    def __dir__(cls) -> list[str]:
        hidden = {name for one in cls.__mro__ for name in vars(one).get("_internal", ())}
        return [name for name in super().__dir__() if name not in hidden]
