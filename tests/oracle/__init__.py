"""The oracle: which jobs of a repository start, found a second time with another solver (OR-tools CP-SAT).

It reads the documents itself and shares no code with the compiler or the solver. develop/model.md says what is best;
`worlds` writes random repositories, `comparison` holds a plan against the oracle.
"""
