"""Questions and clips -> folders that other people's harnesses run: lmms-eval, VLMEvalKit, a Hub dataset. None holds a video."""
