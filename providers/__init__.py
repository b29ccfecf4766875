"""Speech models: one seam (``base``), one package for each vendor, and the fakes that ship."""
