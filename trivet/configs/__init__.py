"""The typed configuration schema and the YAML files that override it."""
