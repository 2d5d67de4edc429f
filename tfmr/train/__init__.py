"""Training: the loss, the learning rate, the loop, what it leaves on disk, and the scores."""
