"""What runs a trial of each method, a file for each kind."""
