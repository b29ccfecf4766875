"""Settings: one YAML file, frozen after load."""
