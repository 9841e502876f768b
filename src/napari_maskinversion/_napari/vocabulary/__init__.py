"""The words that regions are labelled with, and the limits that flag suggestions."""
