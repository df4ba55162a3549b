"""Modules that are written into exports, with all that they import from this package copied into them. They run without it."""
