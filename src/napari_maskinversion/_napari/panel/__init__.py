"""The dock widget: it composes the topics."""
