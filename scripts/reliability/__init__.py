"""What must hold when things go wrong, tried until it is believable."""
