"""The settings of the service, section by section: one YAML file, overridden by the environment."""
