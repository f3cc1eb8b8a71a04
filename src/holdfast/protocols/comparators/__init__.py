"""Protocols that Holdfast is compared with: causal barriers, CBCAST, delta-neighbourhood. For study, not for use."""
