"""The state of a review, and what decisions teach."""
