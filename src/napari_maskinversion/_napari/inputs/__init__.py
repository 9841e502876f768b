"""Choice of image and regions."""
