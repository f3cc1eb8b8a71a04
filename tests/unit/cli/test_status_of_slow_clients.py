"""What `holdfast status` says of clients that do not keep up."""

from holdfast.cli.clusters import _figures


def test_a_slow_client_is_named_with_what_becomes_of_its_messages():
    said = {
        "subscriptions": 2,
        "slow": {
            "bob": {"bytes": 0, "policies": ["drop-oldest"], "dropped": 7},
            "eve": {"bytes": 5_000_000, "policies": ["block", "disconnect"], "dropped": 0},
        },
    }
    assert _figures(said) == (
        "  2 subscriptions, bob is slow (drop-oldest: not behind now, 7 dropped), "
        "eve is slow (block, disconnect: 5,000,000 bytes behind)"
    )
    assert _figures({"subscriptions": 2}) == "  2 subscriptions"
