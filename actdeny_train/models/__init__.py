"""Model families: frames and words into tensors, clips into visual tokens, forests into hidden rows, heads, what trains."""
