"""Drivers that fail, and the scenarios in which they do: see ../failures.py."""
