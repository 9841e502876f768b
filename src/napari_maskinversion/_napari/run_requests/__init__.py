"""What estimates and fetches before a run; shared by the topics."""
