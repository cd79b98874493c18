"""The paper's tasks and experiments, with their constants beside their source."""
