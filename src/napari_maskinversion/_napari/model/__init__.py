"""Choice of model, method and explainability map."""
