"""Images to token activations: preprocessing, the encoded image, its attention layers."""
