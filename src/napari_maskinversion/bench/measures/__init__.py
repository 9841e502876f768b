"""What is measured, and the record of it."""
