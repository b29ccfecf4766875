"""What a model may do on a call."""
