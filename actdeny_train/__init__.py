"""actdeny: measure whether a video language model can deny an action, and finetune small models so that they can."""

__version__ = "0.1.0"
