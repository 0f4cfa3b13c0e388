"""The random search for counterexamples of the property tests (`scripts/hunt`), and their replay as ordinary tests."""
