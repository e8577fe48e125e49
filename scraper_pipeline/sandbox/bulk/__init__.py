"""Batches and crawls: many pages under one job, each with a status of its own."""
