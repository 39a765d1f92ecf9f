"""Speed beside the best known libraries, one command a target."""
