"""Alerts: failed runs and failed checks are told to whoever is on duty, by webhook and in Slack."""

from scraper_pipeline.alerts.sensor import alert_sensor

__all__ = ["alert_sensor"]
