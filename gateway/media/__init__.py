"""DSP and play-out, without I/O."""
