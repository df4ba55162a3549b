"""Video files: decoding to frames, sampling, verification, a cache, and writing. Imports neither torch nor transformers."""
