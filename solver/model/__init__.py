"""The admission model: which gangs start, and how many of their pods go to which place. docs/model.md is the same text in mathematics.

sets.py          Sets: shapes K, places I, domains D, queues Q, classes (q, p, k)
variables.py     Vars: y, g, n, u, w
constraints.py   CONSTRAINTS: one function per family
objectives.py    OBJECTIVES: one function per goal, lexicographic
"""
