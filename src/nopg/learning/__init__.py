"""Learning a policy: settings, updates, history, model files."""
