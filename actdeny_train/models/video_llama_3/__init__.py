"""The VideoLLaMA3 family."""

from actdeny_train.models.video_llama_3.family import VideoLlama3, load

__all__ = ["VideoLlama3", "load"]
