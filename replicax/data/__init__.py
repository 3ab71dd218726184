"""Which examples exist, and which of them a step sees."""
