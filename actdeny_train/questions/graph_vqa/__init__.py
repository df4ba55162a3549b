"""Questions about the causal graph of actions: the auxiliary task that teaches models to deny (paper 1, section 9.3)."""

from actdeny_train.questions.graph_vqa.source import GraphQuestions, allowed_kinds

__all__ = ["GraphQuestions", "allowed_kinds"]
