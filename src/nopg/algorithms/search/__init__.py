"""`nopg.learn`: candidates from planning and ascent, refined in learned models."""
