"""Lightning callbacks that watch a run: observe, save, stop. Named in configs as ``callbacks.module.Class``; not shipped in the wheel."""
