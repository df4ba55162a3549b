"""Checkpoint -> a self-contained folder in the official layout that plain transformers loads, with a model card."""
