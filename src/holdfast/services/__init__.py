"""Replicated services with mixed consistency, built on the client."""
