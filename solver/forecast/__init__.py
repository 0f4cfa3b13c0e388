"""When waiting jobs start: windows from simulated futures, and how well such windows held."""
