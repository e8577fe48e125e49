"""Webhooks: their registration, the deliveries to them, and the log of every attempt."""
