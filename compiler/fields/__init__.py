"""Types of single fields: quantities, durations, timestamps, label selectors, regular expressions; pydantic base
models."""
