"""The observations and effects of a pass, for people and machines."""
