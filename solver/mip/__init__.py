"""PuLP and HiGHS: rows, one solve with an honest answer, and executors for independent parts."""
