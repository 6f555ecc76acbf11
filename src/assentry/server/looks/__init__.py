"""What pages show, as data that templates only have to draw."""
