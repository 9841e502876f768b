"""The bundled demo model: its weights and how they were trained."""
