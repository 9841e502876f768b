"""How what the package bundles is made; not part of the package."""
