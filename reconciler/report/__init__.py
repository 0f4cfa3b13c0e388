"""What a pass saw and did, for people and machines."""
