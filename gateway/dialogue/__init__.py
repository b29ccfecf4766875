"""What a call's dialogue allows at the moment."""
