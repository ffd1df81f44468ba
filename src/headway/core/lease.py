"""The trust window of a lease: how long a holder may act without another renewal."""


def trusted_until_s(*, renewal_sent_s: float, ttl_s: float) -> float:
    """Return when a holder must stop unless another renewal succeeds first.

    The time counts from when the successful renewal was sent, so that a slow answer cannot stretch
    the lease: the other side counts `ttl_s` from when the renewal arrives, which is never earlier.
    `renewal_sent_s` and the result are times of the holder's monotonic clock.
    """
    return renewal_sent_s + ttl_s
