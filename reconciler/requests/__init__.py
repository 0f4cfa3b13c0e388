"""What an operator asks for: suspension, resumption, another run."""
