"""The search: points, trials, how they run, and the ledger that keeps them."""
