"""The state with which a newcomer to the tree begins: its sponsor's state, as seen from one edge further.

Everything that others have numbered for the newcomer has the sponsor on its way. So what the sponsor has processed of
that, the newcomer has; the rest is kept for it by whoever gave the number, as for anybody who was absent. A copy of
something in that past may still come, from somebody who was passed over: it has a forwarder in common with the copy
that the sponsor has processed, and is recognised by that one's numbers.
"""

from holdfast.protocols.locamu.core import Core, CoreImage


def newcomer_state(core: Core, heir: str) -> CoreImage:
    """The state with which a new leaf below this broker begins."""
    reach, paths = core.reach, core.near.paths(heir)
    kept = {name for name, path in paths.items() if len(path) <= reach.safe}
    numbering = [name for name, path in paths.items() if 0 < len(path) <= reach.marks]
    past = {pair: number for pair, number in core.past.items() if kept.issuperset(pair)}
    others = [name for name in core.near.neighbours(core.name) if name != heir]
    return CoreImage(
        core.serial,
        past,
        [(node, past.get((node, heir), 0), []) for node in numbering],
        groups=core.groups.seen_from(numbering, core.name, others),
        local_tree=core.local_tree.seen_from(heir),
        inherited=past,
    )
