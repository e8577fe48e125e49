"""Deliberate breakages of the rules, and the tests that notice them."""
